"""API keys in Redis: created and revoked for all servers, and known to each of them without Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
import redis as redis_client

from server.__main__ import main
from server.errors import SettingsError
from server.store import keys as bounds
from server.store.keys import Keys
from server.store.redis import RedisStore, name_of
from server.store.redis_connection import connect
from tests.support.in_process import wait_for
from tests.support.keys import KeyFile
from tests.support.ports import free_port
from tests.unit.server.conftest import running_redis

KEYS = name_of("keys")
HELLO = {"q": "Hello", "source": "en", "target": "de"}


@pytest.fixture
def command(capsys, redis) -> Callable[..., str]:
    """Runs `attentive keys` and returns what it prints."""

    def run(*arguments: str) -> str:
        assert main(["keys", *arguments, "--state", redis]) == 0
        return capsys.readouterr().out.strip()

    return run


def status(client, secret: str | None) -> int:
    return client.post("/translate", json=HELLO | ({"api_key": secret} if secret else {})).status_code


def test_a_new_key_works_on_all_servers_at_once(serve, redis, command):
    clients = [serve(state=redis, key_required=True) for _ in range(2)]
    for name in ("Ann", "Bob"):
        secret = command("create", name)
        assert [status(client, secret) for client in clients] == [200, 200]
    assert [status(client, "wrong") for client in clients] == [403, 403]
    assert [status(client, None) for client in clients] == [403, 403]


def test_a_revoked_key_is_refused_by_all_servers(serve, redis, command):
    secret = command("create", "Ann", "--weight", "2")
    clients = [serve(state=redis) for _ in range(2)]
    assert [status(client, secret) for client in clients] == [200, 200]
    [entry] = json.loads(command("list", "--json"))
    assert (entry["name"], entry["weight"], entry["revoked"]) == ("Ann", 2.0, None)
    command("revoke", entry["id"])
    command("create", "Bob")  # while no valid key exists, keys are ignored
    for client in clients:
        wait_for(lambda client=client: status(client, secret) == 403)
    assert main(["keys", "revoke", entry["id"], "--state", redis]) == 2


def test_keys_are_ignored_while_none_exists(serve, redis, command):
    client = serve(state=redis)
    assert status(client, "any") == 200
    assert client.get("/frontend/settings").json()["apiKeys"] is False
    command("create", "Ann")
    wait_for(lambda: status(client, "any") == 403)
    assert client.get("/frontend/settings").json()["apiKeys"] is True


def test_only_the_hash_of_a_secret_is_stored(redis, command):
    secret = command("create", "Ann")
    with redis_client.Redis.from_url(redis) as client:
        assert secret.encode() not in b"".join([*client.hgetall(KEYS), *client.hgetall(KEYS).values()])


def test_the_keys_of_a_data_folder_are_imported(serve, redis, command, tmp_path, caplog):
    file = KeyFile(tmp_path)
    (good, _), (bad, revoked) = file.create("good"), file.create("bad")
    command("import", "--data", str(tmp_path))
    file.revoke(revoked.id)
    for _ in range(2):  # a repetition changes nothing
        command("import", "--data", str(tmp_path))
    client = serve(state=redis, data=tmp_path / "other")
    assert [status(client, secret) for secret in (good, bad)] == [200, 403]
    assert [entry["name"] for entry in json.loads(command("list", "--json"))] == ["good", "bad"]
    assert "not used" not in caplog.text
    serve(state=redis, data=tmp_path)
    assert "API keys of the data folder are not used" in caplog.text


def test_import_needs_both_places(redis, tmp_path, capsys):
    assert main(["keys", "import", "--data", str(tmp_path)]) == 2
    assert main(["keys", "import", "--state", redis]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_the_command_says_that_redis_cannot_be_reached(capsys):
    assert main(["keys", "list", "--state", f"redis://:hunter2@127.0.0.1:{free_port()}"]) != 0
    error = capsys.readouterr().err
    assert "cannot be reached" in error
    assert "hunter2" not in error


def test_the_number_of_keys_is_bounded(redis, monkeypatch):
    monkeypatch.setattr(bounds, "LIMIT", 2)

    async def scenario() -> None:
        state = RedisStore(connect(redis))
        keys = Keys(state)
        for name in "ab":
            await keys.create(name)
        with pytest.raises(SettingsError, match="2 is the limit"):
            await keys.create("c")
        await state.stop()

    asyncio.run(scenario())


def test_a_damaged_entry_is_no_key(serve, redis, command):
    secret = command("create", "Ann")
    with redis_client.Redis.from_url(redis) as client:
        client.hset(KEYS, "x", "{")
    client = serve(state=redis)
    assert [status(client, each) for each in (secret, "x")] == [200, 403]


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
    assert "API key cannot be checked" in answer.json()["error"]
    assert status(client, secret) == status(client, None) == 200
    wait_for(lambda: client.get("/ready").status_code == 200)
    assert (status(cold, secret), status(cold, None)) == (503, 403)
    with running_redis(tmp_path, port):
        wait_for(lambda: status(cold, secret) == 403)  # this Redis is empty


def test_a_key_that_is_revoked_while_it_is_looked_up_is_not_remembered(redis):
    async def scenario() -> None:
        state = RedisStore(connect(redis))
        keys, operator = Keys(state), Keys(state)
        await keys.load()
        secret, key = await operator.create("Ann")
        read = state.read

        async def delayed(*arguments):
            answer = await read(*arguments)
            await operator.revoke(key.id)
            await keys._refresh()
            return answer

        state.read = delayed
        await keys.find(secret)
        state.read = read
        assert await keys.find(secret) is None
        await state.stop()

    asyncio.run(scenario())
