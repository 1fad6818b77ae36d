"""Several models: routes, loading on demand within a bound of memory, and replacing them while requests run."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from server.config import Settings
from server.engine.client.model_pool import ModelPool
from server.engine.ipc.messages import ModelLoaded
from server.errors import Unavailable, UnsupportedLanguage
from server.services import Services
from server.translation import served_models
from server.translation.catalog import ModelCatalog, ServedModel
from server.translation.types import TranslationRequest
from tests.support.fake_engine import FakeEngine, fake_model


def sized(name: str, size: int, **changes) -> ServedModel:
    return dataclasses.replace(fake_model(name), bytes=size, **changes)


def test_routes_are_direct_or_go_over_english_first():
    pairs = [("de", "en"), ("en", "fr"), ("de", "es"), ("es", "fr"), ("fr", "it"), ("en", "de")]
    catalog = ModelCatalog([fake_model("b", pairs[:3]), fake_model("a", pairs[3:])])

    def way(source: str, target: str) -> list[tuple[str, str, str]]:
        return [(leg.model.name, leg.source, leg.target) for leg in catalog.route(source, target)]

    assert way("de", "de") == []
    assert way("de", "en") == [("b", "de", "en")]
    assert way("de", "fr") == [("b", "de", "en"), ("b", "en", "fr")]
    assert catalog.targets("de") == ("de", "en", "es", "fr")
    with pytest.raises(UnsupportedLanguage, match="no model"):
        way("fr", "de")
    for source in catalog.sources:
        for target in catalog.targets(source):
            catalog.route(source, target)


def test_the_longest_unused_model_gives_way():
    async def scenario() -> None:
        engine = FakeEngine()
        pool = ModelPool(engine, limit=100)
        first, second, third = (sized(name, 50) for name in ("one", "two", "three"))
        assert await pool.preload([first, second, third]) == {}
        assert set(engine.loaded) == {first.key, second.key}
        async with pool.holding(first):
            pass
        async with pool.holding(third):
            assert set(engine.loaded) == {first.key, third.key}
            async with pool.holding(first), pool.holding(second):  # all in use: the bound gives way
                assert len(engine.loaded) == 3
        async with pool.holding(sized("four", 80)):
            assert len(engine.loaded) <= 2

    asyncio.run(scenario())


def test_a_model_that_cannot_be_loaded_is_told_and_tried_again():
    async def scenario() -> None:
        engine = FakeEngine()
        works = engine.load

        async def fails(model, folder):
            return ModelLoaded(model, 0, 0, 0.0, "The file is torn.")

        pool = ModelPool(engine)
        engine.load = fails
        assert await pool.preload([fake_model("one")]) == {"one": "The file is torn."}
        with pytest.raises(Unavailable, match="torn"):
            async with pool.holding(fake_model("one")):
                pass
        engine.load = works
        async with pool.holding(fake_model("one")):
            assert len(engine.loaded) == 1

    asyncio.run(scenario())


def test_models_change_while_requests_run(monkeypatch):
    """One model is replaced, one is added, one removed; requests all through it succeed."""
    folder = [sized("one", 1, version="1"), fake_model("gone", [("en", "es")])]

    async def scenario() -> None:
        engine = FakeEngine(delay=0.01)
        services = Services(Settings(), engine, ModelCatalog(folder))
        monkeypatch.setattr(served_models, "find_models", lambda weights: (list(folder), {}))
        await services.start()
        await services.loaded()
        done = 0

        async def ask() -> None:
            nonlocal done
            while not stop.is_set():
                request = TranslationRequest(texts=(f"text {done}",), source="de", target="fr")
                [answer] = await services.translator.translate(request)
                assert answer.text == request.texts[0]
                done += 1

        stop = asyncio.Event()
        clients = [asyncio.create_task(ask()) for _ in range(8)]
        await asyncio.sleep(0.05)
        folder[:] = [sized("one", 1, version="2"), fake_model("new", [("en", "it")])]
        changed = await services.models.reload()
        assert changed == {"added": ["new"], "replaced": ["one"], "removed": ["gone"], "failed": []}
        assert set(engine.loaded) == {"one@2", "new@"}
        assert await services.models.reload() == {"added": [], "replaced": [], "removed": [], "failed": []}
        await asyncio.sleep(0.05)
        stop.set()
        await asyncio.gather(*clients)
        assert done > 8
        assert services.translator.catalog.languages == ("de", "en", "fr", "it")
        await services.stop()

    asyncio.run(scenario())


def test_a_replacement_that_cannot_be_loaded_changes_nothing(monkeypatch):
    async def scenario() -> None:
        engine = FakeEngine()
        services = Services(Settings(), engine, ModelCatalog([sized("one", 1, version="1")]))
        await services.start()
        await services.loaded()

        async def fails(model, folder):
            return ModelLoaded(model, 0, 0, 0.0, "The file is torn.")

        engine.load = fails
        monkeypatch.setattr(served_models, "find_models", lambda weights: ([sized("one", 1, version="2")], {}))
        changed = await services.models.reload()
        assert changed == {"added": [], "replaced": [], "removed": [], "failed": ["one"]}
        assert services.translator.catalog.model("one@1") is not None
        assert services.models.errors == {"one": "The file is torn."}
        await services.stop()

    asyncio.run(scenario())


def test_reloading_asks_for_the_admin_key(serve, monkeypatch):
    monkeypatch.setattr(served_models, "find_models", lambda weights: ([fake_model()], {}))
    assert serve().post("/admin/reload").status_code == 403
    client = serve(admin_key="s3cret")
    assert client.post("/admin/reload", headers={"Authorization": "Bearer wrong"}).status_code == 403
    assert client.post("/admin/reload", headers={"Authorization": "Bearer é".encode()}).status_code == 403
    answer = client.post("/admin/reload", headers={"Authorization": "Bearer s3cret"})
    assert answer.json() == {"added": [], "replaced": [], "removed": [], "failed": []}


def test_what_a_replaced_model_said_cannot_be_looked_at(client, monkeypatch):
    id = client.post("/translate", json={"q": "Hello", "source": "en", "target": "de"}).json()["id"]
    client.app.state.services.translator.catalog = ModelCatalog([sized("toy", 1, version="2")])
    assert client.get("/attention", params={"id": id}).status_code == 410
