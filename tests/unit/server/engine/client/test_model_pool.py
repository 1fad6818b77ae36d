"""Models are loaded when they are used and unloaded when memory is short."""

from __future__ import annotations

import dataclasses

import pytest

from server.engine.client.model_pool import ModelPool
from server.engine.ipc.messages import ModelLoaded
from server.errors import Unavailable
from server.translation.catalog import ServedModel
from tests.support.engine.fake_engine import FakeEngine, fake_model


def sized(name: str, size: int, **changes) -> ServedModel:
    return dataclasses.replace(fake_model(name), bytes=size, **changes)


async def test_the_least_recently_used_model_is_unloaded():
    engine = FakeEngine()
    pool = ModelPool(engine, limit=100)
    first, second, third = (sized(name, 50) for name in ("one", "two", "three"))
    assert await pool.preload([first, second, third]) == {}
    assert set(engine.loaded) == {first.key, second.key}
    async with pool.holding(first):
        pass
    async with pool.holding(third):
        assert set(engine.loaded) == {first.key, third.key}
        async with pool.holding(first), pool.holding(second):  # all models are in use, so the limit is exceeded
            assert len(engine.loaded) == 3
    async with pool.holding(sized("four", 80)):
        assert len(engine.loaded) <= 2


async def test_a_failed_load_is_reported_and_tried_again():
    engine = FakeEngine()
    works = engine.load

    async def fails(model, folder):
        return ModelLoaded(model, error="The file is torn.")

    pool = ModelPool(engine)
    engine.load = fails
    assert await pool.preload([fake_model("one")]) == {"one": "The file is torn."}
    with pytest.raises(Unavailable, match="torn"):
        async with pool.holding(fake_model("one")):
            pass
    engine.load = works
    async with pool.holding(fake_model("one")):
        assert len(engine.loaded) == 1


async def test_a_model_counts_with_what_it_takes_on_a_gpu():
    engine = FakeEngine()

    async def on_gpu(model, folder):
        engine.loaded[model] = folder
        return ModelLoaded(model, bytes=70)

    engine.load = on_gpu
    pool = ModelPool(engine, limit=100)
    await pool.load(sized("one", 20))
    assert pool.bytes == 70
    await pool.load(sized("two", 40))
    assert pool.bytes == 70, "the first was unloaded"
