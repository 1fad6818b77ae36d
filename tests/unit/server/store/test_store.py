"""The stores: SQLite and Redis, the setting that chooses, data of version 0.1, and two servers with
one store."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from server.config import Settings
from server.errors import SettingsError, StateUnreachable
from server.glossaries.glossaries import EVERYONE, Glossaries
from server.glossaries.types import Dictionary
from server.store import sqlite
from server.store.history import new_id
from server.store.interface import Bounds, Store
from server.store.keys import Keys, Usage
from server.store.old_data import convert
from server.store.open_store import open_shared
from server.store.redis import FAILURES, RedisStore
from server.store.sqlite import FILE_NAME, SQLiteStore
from tests.support.servers.in_process import wait_for
from tests.support.servers.live import ROOT
from tests.support.servers.ports import free_port
from tests.unit.server.conftest import running_redis

MANY = 1_000_000


def ids(names: str) -> list[tuple[str, bytes]]:
    return [(name, name.encode() * 100) for name in names]


async def kept(store: Store, names: str) -> str:
    return "".join([name for name in names if await store.find("history", name)])


async def test_records_of_a_table_are_written_read_and_deleted(any_store):
    async with any_store() as store:
        assert (
            await store.read("t", "a"),
            await store.read_all("t"),
            await store.version("t"),
        ) == (None, {}, "")
        assert await store.write({"t": {"a": b"1", "b": b"2"}, "other": {"a": b"3"}})
        assert await store.read_all("t") == {"a": b"1", "b": b"2"}
        first = await store.version("t")
        assert await store.write({"t": {"a": None, "b": b"4"}})
        assert await store.read_all("t") == {"b": b"4"}
        assert await store.read("other", "a") == b"3"
        assert await store.version("t") != first != ""


async def test_a_renewed_record_outlives_the_one_before_it(any_store):
    """Also where the next record removes the oldest, and where the one before has expired and was
    not removed yet."""
    async with any_store() as store:
        await store.add("history", [("a", b"1"), ("b", b"1")], Bounds(2, MANY, 60))
        await store.add("history", [("a", b"22")], Bounds(2, MANY, 60))
        await store.add("history", [("c", b"1")], Bounds(2, MANY, 60))
        assert [await store.find("history", id) for id in "abc"] == [b"22", None, b"1"]
        await store.add("history", [("d", b"1")], Bounds(2, MANY, 0.5))
        await asyncio.sleep(0.6)
        began = time.monotonic()
        await store.add("history", [("d", b"22")], Bounds(2, MANY, 0.5))
        found = await store.find("history", "d")
        assert found == b"22" or time.monotonic() - began >= 0.5  # it expires on a busy machine


async def test_the_oldest_record_goes_first_however_fast_they_were_written(any_store):
    async with any_store() as store:
        for names in ("zy", "xw", "vu", "ts", "rq", "po", "nm"):
            await store.add("history", ids(names), Bounds(3, MANY, 60))
        assert await kept(store, "nmop") == "nmo"


async def test_a_write_over_an_older_version_changes_nothing(any_store):
    async with any_store() as store:
        assert await store.write({"t": {"a": b"1"}}, {"t": ""})
        version = await store.version("t")
        assert not await store.write({"t": {"a": b"2"}, "u": {"a": b"2"}}, {"t": ""})
        assert await store.read("t", "a") == b"1" and await store.read("u", "a") is None
        outcomes = await asyncio.gather(
            *[store.write({"t": {"a": b"%d" % i}}, {"t": version}) for i in range(5)]
        )
        assert outcomes.count(True) == 1


async def test_counts_are_added(any_store):
    async with any_store() as store:
        for _ in range(3):
            await store.increase("usage", {"a": 5, "": 1})
        assert await store.read_all("usage") == {"a": b"15", "": b"3"}


async def test_a_collection_is_bounded_by_number(any_store):
    async with any_store() as store:
        for names in ("ab", "ab", "c", "defg", "efg"):
            await store.add("history", ids(names), Bounds(3, MANY, 60))
        assert await kept(store, "abcdefg") == "efg"


async def test_a_collection_is_bounded_by_bytes(any_store):
    async with any_store() as store:
        for names in ("ab", "c", "defghijklmnop"):
            await store.add(
                "history", ids(names), Bounds(MANY, 1_400 if store.shared else 4_000, 60)
            )
        newest = await kept(store, "abcdefghijklmnop")
        assert 2 <= len(newest) < 16 and "abcdefghijklmnop".endswith(newest)


async def test_records_of_a_collection_expire(any_store):
    async with any_store() as store:
        await store.add("history", ids("a"), Bounds(10, MANY, 0.05))
        await asyncio.sleep(0.1)
        await store.add("history", ids("b"), Bounds(10, MANY, 60))
        assert await kept(store, "ab") == "b"


async def test_a_task_that_fails_does_not_end_the_others(any_store, monkeypatch):
    monkeypatch.setattr("server.store.interface.BEAT_SECONDS", 0.01)

    async with any_store() as store:
        counted = asyncio.Semaphore(0)

        async def fails(error: Exception) -> None:
            raise error

        async def counts() -> None:
            counted.release()

        store.at_every_beat(lambda: fails(RuntimeError()))
        store.at_every_beat(lambda: fails(StateUnreachable()))
        store.at_every_beat(counts)
        await store.start()
        for _ in range(3):
            await counted.acquire()


# -- SQLite
# --------------------------------------------------------------------------------------------------


async def test_the_file_stays_within_the_bytes_of_a_collection(tmp_path: Path):
    store = SQLiteStore(tmp_path)
    for number in range(40):
        records = [(f"{number} {i}", bytes(4_000 if i % 2 else 100)) for i in range(50)]
        await store.add("history", records, Bounds(MANY, MANY, 60))
    size = sum([path.stat().st_size for path in list(tmp_path.iterdir())])  # noqa: ASYNC240
    assert await store.find("history", "39 49")
    assert MANY // 4 < size < MANY + sqlite.LOG_PAGES * sqlite.PAGE_BYTES + 500_000
    await store.stop()


async def test_a_locked_file_fails_and_works_again(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sqlite, "LOCK_SECONDS", 0.01)

    store = SQLiteStore(tmp_path)
    other = sqlite3.connect(tmp_path / FILE_NAME)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(StateUnreachable):
            await store.write({"t": {"a": b"1"}})
    assert await store.read("t", "a") is None
    other.rollback()
    assert await store.write({"t": {"a": b"1"}})
    await store.stop()
    assert caplog.text.count("cannot be used") == 1


@pytest.mark.parametrize("seed", range(10))
async def test_a_full_disk_is_logged_once_with_the_remedy_and_read_meanwhile(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    rng, store = random.Random(seed), SQLiteStore(tmp_path)
    assert await store.write({"t": {"a": b"1"}})
    pages = store.database.execute("PRAGMA page_count").fetchone()[0]
    store.database.execute(f"PRAGMA max_page_count = {pages}")
    large = {"t": {"large": bytes(1_000_000)}}
    with pytest.raises(StateUnreachable):
        await store.write(large)
    for _ in range(20):
        if rng.random() < 0.5:
            assert await store.read("t", "a") == b"1"
        else:
            with pytest.raises(StateUnreachable, match="data folder"):
                await store.write(large)
        assert not store.up
    assert caplog.text.count("cannot be used") == 1 and "free some on the disks" in caplog.text
    store.database.execute(f"PRAGMA max_page_count = {pages + 1_000}")
    assert await store.write(large) and store.up
    await store.stop()


def test_a_file_of_a_newer_version_stops_the_start(tmp_path):
    asyncio.run(SQLiteStore(tmp_path).stop())
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        database.execute(f"PRAGMA user_version={sqlite.SCHEMA_VERSION + 1}")
    with pytest.raises(SettingsError, match="newer version"):
        SQLiteStore(tmp_path)


def test_data_of_another_user_names_owner_mode_and_remedy():
    folder = Path(tempfile.mkdtemp())  # that of pytest can be entered only by its owner
    folder.chmod(0o555)
    user = os.geteuid()
    other = user or 12345
    os.seteuid(other)
    try:
        with pytest.raises(SettingsError) as caught:
            SQLiteStore(folder)
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)
    owner = f"{folder} belongs to user {user} and group {os.getegid()} with mode 555"
    assert f"{owner}, and the server runs as user {other}" in str(caught.value)
    assert str(caught.value).endswith(f"or chown -R {other} {folder}.")


def test_data_on_a_read_only_mount_names_the_mount(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert (
        sqlite.whose(tmp_path) == f" {tmp_path} is mounted read-only: mount it with write access."
    )


def test_values():
    assert open_shared(Settings()) is None
    assert open_shared(Settings(state="rediss://u:p@host:1/2?ssl_ca_certs=/ca.pem")) is not None


@pytest.mark.parametrize(
    "value",
    [
        "sqlite",
        "memory",
        "nonsense://:hunter2@x",
        "redis://:hunter2@x:port",
        "redis://:hunter2@x/?db=x",
        "hunter2",
    ],
)
def test_other_values_are_refused(value):
    with pytest.raises(SettingsError, match=r"^--state \(ATTENTIVE_STATE\)") as error:
        open_shared(Settings(state=value))
    assert "hunter2" not in str(error.value)


def test_the_file_is_readable_by_its_owner_only(tmp_path):
    SQLiteStore(tmp_path)
    assert (tmp_path / "attentive.sqlite3").stat().st_mode & 0o777 == 0o600


OLD = ROOT / "tests" / "fixtures" / "data_folder_0_1"
SECRET, REVOKED = (
    "atk_86nFvxWZxGTKXiNGEmh_48ExrVAQJJsZwioQ6zcoscM",
    "atk_dRBHXLZVRJJ6QkmRcpKPJ5thg-DEGgGG4y9_VJMTEHs",
)
KEY, PRODUCTS, SHARED = (
    "731f9244",
    "5aab847341e6a37dd750d1a987c1fd68",
    "4595faf7fc5902bbf2ee3d658a4cf03d",
)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder that version 0.1 wrote. The databases are kept as SQL."""
    shutil.copy(OLD / "keys.json", tmp_path)
    for dump in OLD.glob("*.sql"):
        with sqlite3.connect(tmp_path / f"{dump.stem}.sqlite3") as database:
            database.executescript(dump.read_text(encoding="utf-8"))
        database.close()
    return tmp_path


async def test_an_old_folder_is_converted(folder):
    with pytest.raises(SettingsError, match=r"server\.store\.old_data"):
        SQLiteStore(folder)
    convert(folder)
    with pytest.raises(SettingsError, match="converted before"):
        convert(folder)
    for _ in range(2):  # at the first start and at later ones
        store = SQLiteStore(folder)
        keys = Keys(store)
        key = await keys.find(SECRET)
        assert key and (key.id, key.name, key.requests_per_minute, key.weight) == (
            KEY,
            "team",
            60,
            2.0,
        )
        assert await keys.find(REVOKED) is None
        assert [each.remembered for each in await keys.all()] == [True, False]
        usage = Usage(store)
        assert (await usage.read(KEY), await usage.read("")) == (1234, 56)
        glossaries = Glossaries(store)
        assert [each.id for each in await glossaries.all(KEY)] == [PRODUCTS, SHARED]
        expected = Dictionary("en", "de", {"cat": "Mieze", "a, b": 'Ä "x"'})
        assert await glossaries.dictionary(KEY, PRODUCTS, "en", "de") == expected
        assert not (await glossaries.dictionary(KEY, PRODUCTS, "de", "en")).exact
        index = await glossaries.terms(
            "", [SHARED], "en", "fr", lambda _, *call: asyncio.to_thread(*call)
        )
        assert [entry.target for entry in index.entries] == ["toutou"]
        await store.stop()
    assert {"keys.json", "usage.sqlite3"} < {file.name for file in folder.iterdir()}


async def test_changes_are_kept_beside_the_old_files(folder):
    convert(folder)
    for _ in range(2):
        store = SQLiteStore(folder)
        keys, glossaries = Keys(store), Glossaries(store)
        if await keys.find(SECRET):
            await keys.change(KEY, revoked=1.0)
            await glossaries.delete(EVERYONE, SHARED)
        assert await Keys(store).find(SECRET) is None
        assert [each.id for each in await glossaries.of()] == [PRODUCTS]
        await store.stop()


@pytest.mark.parametrize("name", ["keys.json", "glossaries.sqlite3", "usage.sqlite3"])
def test_damaged_keys_glossaries_and_usage_stop_the_conversion_and_nothing_is_lost(folder, name):
    (folder / name).write_text("{")
    with pytest.raises(SettingsError, match=name):
        convert(folder)
    if name == "keys.json":
        (folder / name).write_text(json.dumps({"keys": []}))
        convert(folder)
        asyncio.run(SQLiteStore(folder).stop())


HELLO = {"q": "Hello", "source": "en", "target": "de"}
GLOSSARY = {
    "name": "x",
    "source_lang": "EN",
    "target_lang": "DE",
    "entries": "Hello\tServus",
    "entries_format": "tsv",
}


def state_of(client: TestClient) -> RedisStore:
    return client.app.services.state


def translate(client: TestClient, **options: object) -> int:
    return client.post("/translate", json=HELLO | options).status_code


def metric(client: TestClient, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


@pytest.mark.slow
def test_an_outage_leaves_translations_and_ends_by_itself(serve, tmp_path):
    port = free_port()
    servers = [serve(state=f"redis://127.0.0.1:{port}") for _ in range(2)]

    def answers(client: TestClient) -> list[int]:
        return [
            client.get("/attention", params={"id": new_id(1_000_000)}).status_code,
            client.get("/v2/usage").status_code,
            client.get("/v2/glossaries").status_code,
            client.post("/v2/glossaries", json=GLOSSARY).status_code,
            translate(client, glossary="x"),
            translate(client, api_key="unknown"),
        ]

    def check_outage(client: TestClient) -> None:
        wait_for(lambda: not state_of(client).up)
        assert answers(client) == [503] * 6
        assert client.get("/v2/usage").headers["Retry-After"] == "1"
        wait_for(lambda: translate(client) == client.get("/ready").status_code == 200)
        assert metric(client, "attentive_state_up") == 0
        assert metric(client, "attentive_state_errors_total") >= FAILURES

    def works(client: TestClient) -> Callable[[], bool]:
        return lambda: (
            answers(client) == [410, 200, 200, 201, 404, 200]
            and metric(client, "attentive_state_up") == 1
        )

    for client in servers:
        check_outage(client)
    for _ in range(2):
        with running_redis(tmp_path, port) as redis:
            for client in servers:
                wait_for(works(client))
            redis.kill()
        for client in servers:
            wait_for(lambda client=client: not state_of(client).up)
            assert translate(client) == client.get("/ready").status_code == 200
            assert answers(client)[:5] == [503] * 5
            assert answers(client)[5] == 200  # it was known that there are no keys
