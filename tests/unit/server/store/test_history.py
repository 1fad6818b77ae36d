"""The history: its bounds, expired and unknown ids, and a store that fails, in memory, SQLite and
Redis."""

from __future__ import annotations

import time

import orjson
import pytest

from model.search.options import DecodingOptions
from server.errors import ExpiredTranslation, NotFound, StateUnreachable
from server.store.history import (
    History,
    LegRecord,
    SentenceRecord,
    TranslationRecord,
    encoded,
    new_id,
)
from server.store.interface import Bounds, Store
from server.store.sqlite import SQLiteStore
from tests.unit.server.store.conftest import opened

BOUNDS = Bounds(10, 1_000_000, 60)
HELLO = {"q": "Hello", "source": "en", "target": "de"}


def record(text: str = "Hello") -> TranslationRecord:
    leg = LegRecord("toy", "en", "de", (SentenceRecord(text, (1, 2, 3), (4, 5)),))
    return TranslationRecord(new_id(), time.time(), (leg,))


def failing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a store fail until the patches are undone."""

    async def fail(*_: object) -> None:
        raise StateUnreachable

    monkeypatch.setattr(store, "find", fail)
    monkeypatch.setattr(store, "add", fail)


@pytest.mark.parametrize("old", [True, False])
async def test_a_record_says_how_it_was_decoded_and_old_ones_are_readable(any_store, old):
    made = record()
    if not old:
        [leg] = made.legs
        leg.computation, leg.options = (
            "cpu int8 native",
            DecodingOptions(beam_size=4, shortlist="0123abcd"),
        )
        leg.sentences[0].forced, leg.sentences[0].ended, leg.sentences[0].scores = (
            2,
            True,
            (-0.5, -0.25),
        )
        leg.sentences[0].options = DecodingOptions(masked_heads=(("cross", 0, 1),), max_length=9)
    # Older versions wrote every field that they knew.
    data = encoded(made) if not old else orjson.dumps(made)
    assert len(data) <= len(orjson.dumps(made))
    async with any_store() as store:
        history = History(store, BOUNDS)
        history.add(made.id, data)
        await history.flush()
        found = await History(store, BOUNDS).find(made.id)
    assert found == made
    assert (found.legs[0].options is None) == old


async def test_records_are_bounded_by_number_and_survive_a_restart(any_store, monkeypatch):
    async with any_store() as store:
        monkeypatch.setattr("server.store.history.RECENT_SECONDS", 0.0)  # waits for no other server
        records = [record(f"Text {i} äöü") for i in range(20)]
        history = History(store, BOUNDS)
        for each in records:
            history.add(each.id, encoded(each))
        assert await history.find(records[19].id) == records[19]
        await history.flush()
        for same in (history, History(store, BOUNDS)):
            assert await same.find(records[19].id) == records[19]
            with pytest.raises(ExpiredTranslation, match="no longer kept"):
                await same.find(records[0].id)
        assert (history.hits, history.misses) == (2, 1)


@pytest.mark.parametrize(
    "id", ["", "x", "0" * 25, "8" + "0" * 25, "../../etc/passwd", "0" * 25 + "I", "é" * 26]
)
async def test_a_text_that_is_not_an_id_is_unknown(id, monkeypatch):
    async with opened(SQLiteStore(None)) as store:
        failing(store, monkeypatch)
        with pytest.raises(NotFound):
            await History(store, BOUNDS).find(id)


async def test_records_wait_for_a_failing_store_and_other_ids_are_unavailable(
    any_store, monkeypatch
):
    async with any_store() as store:
        history = History(store, Bounds(100, 1_000_000, 60))
        records = [record(f"Text {i}") for i in range(20)]
        with monkeypatch.context() as patches:
            failing(store, patches)
            for each in records:
                history.add(each.id, encoded(each))
            await history.flush()
            assert history.errors == 1
            assert [await history.find(each.id) for each in records] == records
            with pytest.raises(StateUnreachable):
                await history.find(new_id())
        await history.flush()
        assert [await History(store, history.bounds).find(each.id) for each in records] == records


async def test_records_that_wait_are_bounded(monkeypatch):
    async with opened(SQLiteStore(None)) as store:
        failing(store, monkeypatch)
        history = History(store, Bounds(10_000, 20_000, 60))
        records = [record("x" * 1_000) for _ in range(200)]
        for each in records:
            history.add(each.id, encoded(each))
        await history.flush()
        assert history.lost >= 180 and history.errors == 1
        assert await history.find(records[-1].id) == records[-1]
        with pytest.raises(StateUnreachable):
            await history.find(records[0].id)


@pytest.mark.parametrize("text", [b"{}", b"[1]", b"{"])
async def test_a_damaged_record_is_not_found(any_store, text):
    async with any_store() as store:
        id = new_id(1_000_000)  # an old one is looked up once
        await store.add("history", [(id, text)], BOUNDS)
        with pytest.raises(ExpiredTranslation):
            await History(store, BOUNDS).find(id)


def test_translations_of_one_server_are_found_by_another(serve, redis):
    first, second = (serve(state=redis) for _ in range(2))
    id = first.post("/translate", json=HELLO).json()["id"]
    first.portal.call(first.app.services.history.flush)
    for client in (second, first):
        assert client.get("/attention", params={"id": id}).status_code == 200
