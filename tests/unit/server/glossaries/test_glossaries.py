"""Glossaries in their store: owners, bounds, formats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import redis as redis_client

from server.errors import Forbidden, InvalidRequest, NotFound, PayloadTooLarge, StateUnreachable
from server.glossaries import glossaries as bounds
from server.glossaries.glossaries import EVERYONE, Glossaries
from server.glossaries.types import TERM_CHARACTERS, Dictionary, read_entries, write_entries
from server.store.interface import Store
from server.store.redis import RedisStore, connect
from server.store.sqlite import SQLiteStore
from server.text.glossary import TermIndex

DEVICES = Dictionary("en", "de", {"battery": "Akku", "device": "Gerät"})


async def in_thread(size: int, *call) -> TermIndex:
    return await asyncio.to_thread(*call)


class Blocking:
    """Glossaries whose methods wait for their results."""

    def __init__(self, store: Store, runner: asyncio.Runner) -> None:
        self.glossaries = Glossaries(store)
        self._runner = runner

    def __getattr__(self, name: str):
        method = getattr(self.glossaries, name)
        if name == "terms":
            method = partial(method, run=in_thread)
        return lambda *arguments, **options: self._runner.run(method(*arguments, **options))


@pytest.fixture(params=["sqlite", "redis"])
def opened(request, tmp_path) -> Iterator[Callable[[], Blocking]]:
    """Returns a function that opens the glossaries of one more server, in the same place."""
    stores: list[Store] = []
    with asyncio.Runner() as runner:

        def start() -> Blocking:
            if request.param == "sqlite":
                stores.append(SQLiteStore(tmp_path))
            else:
                stores.append(RedisStore(connect(request.getfixturevalue("redis"))))
            return Blocking(stores[-1], runner)

        yield start
        for store in stores:
            runner.run(store.stop())


@pytest.fixture
def glossaries(opened) -> Blocking:
    return opened()


def test_a_glossary_is_kept_over_a_restart_and_renamed(opened):
    first = opened()
    created = first.create("ann", "Devices", [DEVICES])
    second = opened()
    assert second.all("ann") == [created]
    second.rename("ann", created.id, "Tools")
    assert [glossary.name for glossary in first.all("ann")] == ["Tools"]
    assert second.dictionary("ann", created.id, "en", "de") == DEVICES


def test_a_full_disk_refuses_a_glossary_until_there_is_room(tmp_path, caplog):
    large = Dictionary("en", "de", {f"battery {number}": "Akku" for number in range(3000)})
    store = SQLiteStore(tmp_path)
    with asyncio.Runner() as runner:
        glossaries = Blocking(store, runner)
        kept = glossaries.create("ann", "Devices", [DEVICES])
        store.database.execute("PRAGMA max_page_count=1")
        for _ in range(2):
            with pytest.raises(StateUnreachable, match="data folder"):
                glossaries.create("ann", "Secret name", [large])
            assert glossaries.all("ann") == [kept]
        assert "database or disk is full" in caplog.text and "Secret" not in caplog.text
        store.database.execute("PRAGMA max_page_count=100000")
        added = glossaries.create("ann", "Secret name", [large])
        assert glossaries.all("ann") == [kept, added]


def test_a_change_by_another_process_takes_effect_at_once(opened):
    server, command = opened(), opened()
    id = command.create(EVERYONE, "Devices", [DEVICES]).id
    assert len(server.terms("ann", [id], "en", "de").entries) == 2
    command.put(EVERYONE, id, Dictionary("en", "de", {"screen": "Bildschirm"}), merge=True)
    assert len(server.terms("ann", [id], "en", "de").entries) == 3
    command.remove(EVERYONE, id, "en", "de")
    with pytest.raises(InvalidRequest):
        server.terms("ann", [id], "en", "de")


def test_a_glossary_belongs_to_its_owner(glossaries):
    own = glossaries.create("ann", "Own", [DEVICES])
    shared = glossaries.create(EVERYONE, "Shared", [DEVICES])
    assert [one.name for one in glossaries.all("bob")] == ["Shared"]
    for change in (glossaries.find, glossaries.delete):
        with pytest.raises(NotFound):
            change("bob", own.id)
    with pytest.raises(Forbidden):
        glossaries.delete("bob", shared.id)
    glossaries.delete("ann", own.id)
    assert glossaries.all("ann") == [shared]


def test_the_first_glossary_that_has_a_term_counts(glossaries):
    first = glossaries.create(
        "ann", "1", [Dictionary("en", "de", {"battery": "Batterie"}, exact=False)]
    )
    second = glossaries.create("ann", "2", [DEVICES])
    entries = glossaries.terms("ann", [first.id, second.id], "en", "de").entries
    assert {(entry.target, entry.exact) for entry in entries} == {
        ("Batterie", False),
        ("Gerät", True),
    }


def test_an_index_is_kept_until_the_glossary_changes(glossaries):
    id = glossaries.create("ann", "1", [DEVICES]).id
    before = glossaries.terms("ann", [id], "en", "de")
    assert glossaries.terms("ann", [id], "EN-GB", "de") is before
    glossaries.put("ann", id, Dictionary("en", "de", {"battery": "Batterie"}))
    assert [entry.target for entry in glossaries.terms("ann", [id], "en", "de").entries] == [
        "Batterie"
    ]


@pytest.mark.parametrize(
    ("name", "entries", "error"),
    [
        ("", {"x": "y"}, InvalidRequest),
        ("  ", {"x": "y"}, InvalidRequest),
        ("x" * 201, {"x": "y"}, InvalidRequest),
        ("x", {}, InvalidRequest),
        ("x", {"x" * (TERM_CHARACTERS + 1): "y"}, InvalidRequest),
        ("x", {"x": " "}, InvalidRequest),
        ("x", {"x": "a\x00b"}, InvalidRequest),
        ("x", {str(number): "x" for number in range(10_001)}, PayloadTooLarge),
    ],
)
def test_sizes_are_bounded_and_nothing_is_stored(glossaries, name, entries, error):
    with pytest.raises(error):
        glossaries.create("ann", name, [DEVICES, Dictionary("en", "fr", entries)])
    assert glossaries.all("ann") == []


def test_glossaries_of_an_owner_are_bounded(glossaries, monkeypatch):
    monkeypatch.setattr(bounds, "GLOSSARIES", 1)
    glossaries.create("ann", "x", [DEVICES])
    with pytest.raises(InvalidRequest, match="limit"):
        glossaries.create("ann", "y", [DEVICES])
    glossaries.create("bob", "y", [DEVICES])
    monkeypatch.setattr(bounds, "CHARACTERS", DEVICES.info().characters)
    with pytest.raises(PayloadTooLarge):
        glossaries.put("bob", glossaries.all("bob")[0].id, Dictionary("en", "fr", {"x": "y"}))
    assert len(glossaries.all("bob")[0].dictionaries) == 1


def test_changes_of_two_servers_at_the_same_time_are_all_stored(opened):
    servers = [opened().glossaries for _ in range(2)]
    runner = opened()._runner

    async def scenario() -> None:
        id = (await servers[0].create("ann", "x", [DEVICES])).id
        tasks = [
            server.put("ann", id, Dictionary("en", "de", {f"{number} {step}": "x"}), merge=True)
            for step in range(2)
            for number, server in enumerate(servers)
        ]
        await asyncio.gather(*tasks)
        assert len((await servers[1].dictionary("ann", id, "en", "de")).entries) == 2 + len(tasks)

    runner.run(scenario())


def test_an_owner_cannot_exceed_its_bound_with_requests_at_the_same_time(opened, monkeypatch):
    monkeypatch.setattr(bounds, "GLOSSARIES", 2)
    servers = [opened().glossaries for _ in range(4)]

    async def scenario() -> None:
        tasks = [server.create("ann", "x", [DEVICES]) for server in servers]
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(await servers[0].all("ann")) == 2

    opened()._runner.run(scenario())


@pytest.mark.parametrize("opened", ["redis"], indirect=True)
def test_a_deleted_glossary_leaves_nothing_in_redis(glossaries, redis):
    id = glossaries.create("ann", "x", [DEVICES, Dictionary("en", "fr", {"a": "b"})]).id
    glossaries.remove("ann", id, "en", "fr")
    with redis_client.Redis.from_url(redis) as client:
        assert client.hlen("attentive:glossaries:1:entries") == 1
        glossaries.delete("ann", id)
        assert client.dbsize() == 2  # the versions of the two tables


@pytest.mark.parametrize("format", ["tsv", "csv"])
def test_entries_are_written_as_they_are_read(format):
    entries = {"one, two": 'the "first"', "Grüße": "greetings"}
    assert read_entries("\ufeff" + write_entries(entries, format), format) == entries


@pytest.mark.parametrize(
    ("text", "format", "line"),
    [
        ("a\tb\nc", "tsv", 2),
        ("a,b,c", "csv", 1),
        ("a\t\n", "tsv", 1),
        ("a\tb\n\na\tc", "tsv", 3),
        ("a\tb\tc", "tsv", 1),
    ],
)
def test_a_wrong_line_is_named(text, format, line):
    with pytest.raises(InvalidRequest, match=f"Line {line} "):
        read_entries(text, format)


def test_csv_may_name_the_languages():
    assert read_entries("battery,Akku,en,de\n", "csv") == {"battery": "Akku"}
