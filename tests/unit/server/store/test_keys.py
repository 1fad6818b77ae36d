"""API keys and their usage."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

import pytest
import redis as redis_client

from server.__main__ import main
from server.errors import QuotaExceeded, SettingsError, StateUnreachable
from server.store import keys as bounds
from server.store import sqlite
from server.store.keys import Key, Keys, Usage, quotas_of
from server.store.redis import name_of
from server.store.sqlite import SQLiteStore
from tests.support.servers.in_process import wait_for
from tests.support.servers.keys import KeyFile
from tests.support.servers.ports import free_port
from tests.unit.server.conftest import running_redis

HELLO = {"q": "Hello", "source": "en", "target": "de"}


def status(client, secret: str | None) -> int:
    return client.post(
        "/translate", json=HELLO | ({"api_key": secret} if secret else {})
    ).status_code


@pytest.fixture(params=["folder", "redis"])
def place(request, tmp_path) -> tuple[str, str]:
    """The flag and the value that name where the keys are."""
    return (
        ("--data", str(tmp_path))
        if request.param == "folder"
        else ("--state", request.getfixturevalue("redis"))
    )


@pytest.fixture
def command(capsys, place) -> Callable[..., str]:
    """Runs `attentive keys` and returns what it prints."""

    def run(*arguments: str) -> str:
        assert main(["keys", *arguments, *place]) == 0
        return capsys.readouterr().out.strip()

    return run


@pytest.fixture
def start(serve, place, tmp_path):
    """Starts a server with the keys."""
    where = {"data": tmp_path} if place[0] == "--data" else {"state": place[1]}
    return lambda **settings: serve(**where, **settings)


def test_a_new_key_works_on_all_servers_at_once(start, command):
    clients = [start(key_required=True) for _ in range(2)]
    for name in ("Ann", "Bob"):
        secret = command("create", name)
        assert [status(client, secret) for client in clients] == [200, 200]
    assert [
        status(client, wrong) for client in clients for wrong in ("wrong", secret + "x", None)
    ] == [403] * 6


def test_a_revoked_key_is_refused_by_all_servers(start, command, place):
    secret = command("create", "Ann", "--weight", "2")
    clients = [start() for _ in range(2)]
    assert [status(client, secret) for client in clients] == [200, 200]
    [entry] = json.loads(command("list", "--json"))
    command("revoke", entry["id"])
    command("create", "Bob")  # while no valid key exists, keys are ignored
    for client in clients:
        wait_for(lambda client=client: status(client, secret) == 403)
    assert main(["keys", "revoke", entry["id"], *place]) == 2


def test_keys_are_ignored_while_none_exists(start, command):
    client = start()
    assert status(client, "any") == 200
    assert client.get("/frontend/settings").json()["apiKeys"] is False
    command("create", "Ann")
    wait_for(lambda: status(client, "any") == 403)
    assert client.get("/frontend/settings").json()["apiKeys"] is True


async def test_the_number_of_keys_is_bounded_and_only_hashes_are_stored(any_store, monkeypatch):
    monkeypatch.setattr(bounds, "LIMIT", 2)

    async with any_store() as store:
        keys = Keys(store)
        secrets = [(await keys.create(name))[0] for name in "ab"]
        with pytest.raises(SettingsError, match="2 is the limit"):
            await keys.create("c")
        stored = await store.read_all("keys")
        assert not any(secret in f"{stored}" for secret in secrets)


async def test_a_damaged_entry_is_no_key(any_store):
    async with any_store() as store:
        secret, key = await Keys(store).create("Ann")
        await store.write({"keys": {"x": b"{"}})
        assert await Keys(store).find(secret) == key
        assert await Keys(store).all() == [key]


# -- the data folder
# --------------------------------------------------------------------------------------------------


def test_known_keys_stay_valid_while_the_file_cannot_be_used(serve, keys):
    secret, _ = keys.create("Ann")
    client = serve(data=keys.folder)
    assert status(client, secret) == 200
    client.app.services.store.database.close()
    assert [status(client, secret), status(client, "wrong")] == [200, 503]


def test_a_damaged_file_stops_a_start(keys):
    keys.create("Ann")
    (keys.folder / "attentive.sqlite3").write_bytes(b"no database" * 1_000)
    with pytest.raises(SettingsError, match="opened: file is not a database: restore a backup"):
        SQLiteStore(keys.folder)


def test_a_full_disk_at_the_start_says_what_to_free(tmp_path, monkeypatch):
    def full(path):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(sqlite, "connect", full)
    with pytest.raises(SettingsError, match=r"disk is full: free some on the disks of --data.*\.$"):
        SQLiteStore(tmp_path)


# -- Redis
# --------------------------------------------------------------------------------------------------


def test_the_keys_of_a_data_folder_are_imported(serve, redis, tmp_path, caplog, capsys):
    file = KeyFile(tmp_path)
    (good, _), (bad, revoked) = file.create("good"), file.create("bad")
    into = ["keys", "import", "--data", str(tmp_path), "--state", redis]
    assert main(into) == 0
    file.revoke(revoked.id)
    assert [main(into) for _ in range(2)] == [0, 0]  # a repetition changes nothing
    client = serve(state=redis, data=tmp_path / "other")
    assert [status(client, secret) for secret in (good, bad)] == [200, 403]
    with redis_client.Redis.from_url(redis) as stored:
        assert stored.hlen(name_of("keys")) == 2
    assert "not used" not in caplog.text
    serve(state=redis, data=tmp_path)
    assert "API keys of the data folder are not used" in caplog.text
    assert (
        main(["keys", "import", "--data", str(tmp_path)])
        == main(["keys", "import", "--state", redis])
        == 2
    )


@pytest.mark.slow
def test_known_keys_work_while_redis_is_down(serve, tmp_path, capsys):
    port = free_port()
    url = f"redis://127.0.0.1:{port}"
    with running_redis(tmp_path, port):
        assert main(["keys", "create", "Ann", "--state", url]) == 0
        secret = capsys.readouterr().out.strip()
        client = serve(state=url)
        wait_for(lambda: status(client, secret) == 200)
    cold = serve(state=url, key_required=True)
    answer = client.post("/translate", json=HELLO | {"api_key": "unknown"})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert "shared state cannot be reached" in answer.json()["error"]
    assert status(client, secret) == status(client, None) == 200
    wait_for(lambda: client.get("/ready").status_code == 200)
    assert (status(cold, secret), status(cold, None)) == (503, 403)
    with running_redis(tmp_path, port):
        wait_for(lambda: status(cold, secret) == 403)  # this Redis is empty


def used(client, **key: str) -> int:
    answer = client.get("/v2/usage", params={"auth_key": key["api_key"]} if key else {})
    assert answer.status_code == 200
    return answer.json()["character_count"]


def test_usage_is_kept_over_restarts(serve, tmp_path):
    for count in (1, 2):
        client = serve(data=tmp_path)
        assert client.post("/translate", json=HELLO).status_code == 200
        wait_for(lambda client=client, count=count: used(client) == 5 * count)


async def test_counts_wait_while_the_store_fails_and_are_written_at_the_stop(
    any_store, monkeypatch
):
    """Quotas let pass meanwhile, and count what has passed."""

    async def fail(*_: object) -> None:
        raise StateUnreachable

    async with any_store() as store:
        usage, limited = Usage(store), Key("a", "Ann", "digest", 0.0, characters_per_day=5)
        await store.start()
        with monkeypatch.context() as patches:
            patches.setattr(store, "increase", fail)
            usage.add("b", 5)
            await usage.spend(limited, 5)
            with pytest.raises(StateUnreachable):
                await usage.flush()
        usage.add("b", 1)
        assert (await usage.read("a"), await usage.read("b")) == (5, 6)
        assert [quota.used for quota in await usage.quotas(limited)] == [5]
        await usage.flush()
        with pytest.raises(QuotaExceeded):
            await usage.spend(limited, 1)
        usage.add("b", 1)
        counts = []

        async def read() -> None:
            counts.append(await store.read("usage", "b"))

        with monkeypatch.context() as patches:
            patches.setattr(store, "_close", read)
            await store.stop()
        assert counts == [b"7"]


async def test_counts_of_earlier_months_are_forgotten(any_store, monkeypatch):
    async with any_store() as store:
        usage = Usage(store)
        limited = Key("ab", "Ann", "digest", 0.0, characters_per_day=5, characters_per_month=5)
        for day in (0, 1, 35, 70):
            monkeypatch.setattr("time.time", lambda day=day: 1e9 + 86_400 * day)
            await usage.spend(limited, 1)
            await usage.flush()
        assert set(await store.read_all("usage")) == {
            "ab",
            *[quota.record for quota in quotas_of(limited)],
        }
        assert await usage.read("ab") == 4
