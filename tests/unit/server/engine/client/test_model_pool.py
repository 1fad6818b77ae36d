"""Models are loaded when they are used and unloaded when memory is short."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from server.config import Settings
from server.engine.client.model_pool import ModelHandle, ModelPool
from server.engine.client.worker_pool import NO_WORKER
from server.engine.ipc.messages import ModelLoaded
from server.errors import ModelFailed
from server.services import Services
from server.translation.catalog import ModelCatalog, ServedModel
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
        # all models are in use, so the limit is exceeded
        async with pool.holding(first), pool.holding(second):
            assert len(engine.loaded) == 3
    async with pool.holding(sized("four", 80)):
        assert len(engine.loaded) <= 2


async def test_a_failed_load_is_reported_and_tried_again_by_a_load_only():
    engine = FakeEngine()
    works = engine.opened

    async def fails(model, folder):
        return ModelLoaded(model, error="The file is torn.")

    pool = ModelPool(engine)
    engine.opened = fails
    assert await pool.preload([fake_model("one")]) == {"one": "The file is torn."}
    with pytest.raises(ModelFailed, match="torn"):
        async with pool.holding(fake_model("one")):
            pass
    engine.opened = works
    with pytest.raises(ModelFailed, match="torn"):
        async with pool.holding(fake_model("one")):
            pass
    assert (await pool.load(fake_model("one"))).error is None
    async with pool.holding(fake_model("one")):
        assert len(engine.loaded) == 1


async def test_a_model_counts_with_what_it_takes_on_a_gpu():
    engine = FakeEngine()

    async def on_gpu(model, folder):
        return ModelLoaded(model, bytes=70)

    engine.opened = on_gpu
    pool = ModelPool(engine, limit=100)
    await pool.load(sized("one", 20))
    assert pool.bytes == 70
    await pool.load(sized("two", 40))
    assert pool.bytes == 70, "the first was unloaded"


async def test_idle_models_are_unloaded_and_come_back_while_the_server_stays_ready():
    engine = FakeEngine()
    services = Services(
        Settings(model_idle_seconds=0.01),
        engine,
        ModelCatalog([fake_model("one"), fake_model("two")]),
    )
    await services.start()
    await services.loaded()
    one, two = services.models.catalog.models
    async with services.engine.holding(one):
        await asyncio.sleep(0.02)
        await services.engine.unload_idle()
        assert set(engine.loaded) == {one.key}, "it is in use"
        async with services.engine.holding(two):
            assert set(engine.loaded) == {one.key, two.key}
    async with asyncio.timeout(60):
        while engine.loaded:  # noqa: ASYNC110  # until a beat of the store
            await asyncio.sleep(0.01)
    assert services.readiness == "ready"
    async with services.engine.holding(one):
        assert set(engine.loaded) == {one.key}
    await services.stop()


async def test_models_stay_without_a_time_for_idle_ones():
    engine = FakeEngine()
    pool = ModelPool(engine)
    await pool.load(fake_model("one"))
    await pool.unload_idle()
    assert engine.loaded


async def test_a_model_that_loads_after_the_workers_failed_is_served():
    model = ModelHandle(fake_model("m"))
    model.resolve(NO_WORKER)
    assert model.outcome.result().error == NO_WORKER
    model.loaded = ModelLoaded(model.key, 1.0)
    model.resolve()
    assert model.outcome.result() is model.loaded
    model.resolve(NO_WORKER)
    assert model.outcome.result() is model.loaded, "what is loaded stays loaded"
