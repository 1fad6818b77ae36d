"""A model that cannot be loaded: the next one translates its pairs, and it is tried again without
requests."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest

from server.config import Settings
from server.engine.ipc.messages import ModelLoaded
from server.errors import ModelFailed, UnsupportedLanguage
from server.models import hot_reload
from server.services import Services
from server.translation.catalog import ModelCatalog, ServedModel
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import FakeEngine, fake_model

TORN = "The file is torn."


class DamagedEngine(FakeEngine):
    """Models in `damaged` cannot be loaded; `tries` has every attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged: dict[str, str] = {}
        self.tries: list[str] = []

    async def opened(self, model: str, folder: Path) -> ModelLoaded:
        self.tries.append(model)
        await asyncio.sleep(0)
        if error := self.damaged.get(model):
            return ModelLoaded(model, error=error)
        return await super().opened(model, folder)


def model(name: str, pairs, preference: int = 0, version: str = "1") -> ServedModel:
    return dataclasses.replace(fake_model(name, pairs), preference=preference, version=version)


PAIR = [("en", "de")]
FIRST, SECOND = model("first", PAIR, 1), model("second", PAIR)
ONLY = model("only", [("en", "fr"), ("fr", "en")])
MODELS = (FIRST, SECOND, ONLY)
NUMBERS = count()


@asynccontextmanager
async def running(engine: DamagedEngine, models=MODELS, **settings) -> AsyncIterator[Services]:
    services = Services(Settings(**settings), engine, ModelCatalog(models))
    await services.start()
    await services.loaded()
    try:
        yield services
    finally:
        await services.stop()


async def route(services: Services, target: str = "de", **fields) -> list[str]:
    """Returns the models that translate a text."""
    request = TranslationRequest(
        texts=(f"Hello {next(NUMBERS)}.",), source="en", target=target, **fields
    )
    [translation] = await services.translator.translate(request)
    return [leg.model for leg in translation.legs]


@pytest.mark.parametrize("idle", [False, True])
async def test_the_next_model_translates_the_pairs_of_one_that_cannot_be_loaded(
    idle: bool, caplog
) -> None:
    """At the start, and after it was unloaded because nobody used it."""
    engine = DamagedEngine()
    engine.damaged = {} if idle else {FIRST.key: TORN}
    async with running(engine) as services:
        if idle:
            assert await route(services) == ["first"]
            before = services.translator.catalog.fingerprint
            engine.damaged[FIRST.key] = TORN
            await services.engine.unload(FIRST.key)
            answers = await asyncio.gather(*(route(services) for _ in range(8)))
            assert services.translator.catalog.fingerprint != before, (
                "nothing of the result cache is found"
            )
        else:
            answers = [await route(services) for _ in range(8)]
        assert answers == [["second"]] * 8
        assert services.readiness == "ready" and services.models.errors == {"first": TORN}
        assert engine.tries.count(FIRST.key) == (2 if idle else 1), "no request tries it again"
        assert caplog.text.count(TORN) == 1
        with pytest.raises(ModelFailed, match=TORN) as error:
            await route(services, model="first")
        assert error.value.retry_after > 1


async def test_a_pair_that_only_a_failed_model_has_is_unavailable_and_not_unsupported() -> None:
    engine = DamagedEngine()
    engine.damaged = {ONLY.key: TORN}
    async with running(engine) as services:
        catalog = services.translator.catalog
        for source, target in (("en", "fr"), ("fr", "en"), ("fr", "de")):
            with pytest.raises(ModelFailed, match="only cannot be loaded"):
                catalog.route(source, target)
        for source, target in (("de", "en"), ("en", "tlh")):
            with pytest.raises(UnsupportedLanguage):
                catalog.route(source, target)
        assert catalog.languages == ("de", "en"), "what is not served is not listed"
        request = TranslationRequest(
            texts=("Bonjour à tous, je voudrais savoir où se trouve la gare la plus proche.",),
            source="auto",
            target="de",
        )
        with pytest.raises(ModelFailed):
            await services.translator.translate(request)


async def test_a_pivot_translates_where_the_direct_model_is_dead() -> None:
    direct = model("direct", [("de", "fr")])
    pivots = (model("to-english", [("de", "en")]), model("from-english", [("en", "fr")]))
    engine = DamagedEngine()
    engine.damaged = {direct.key: TORN}
    async with running(engine, (direct, *pivots)) as services:
        request = TranslationRequest(texts=("Hallo.",), source="de", target="fr")
        [translation] = await services.translator.translate(request)
        assert [leg.model for leg in translation.legs] == ["to-english", "from-english"]


async def test_a_failed_model_is_tried_again_after_a_pause_and_when_its_folder_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = dataclasses.replace(FIRST, folder=tmp_path / "first")
    first.folder.mkdir()
    there = [first, SECOND]
    monkeypatch.setattr(hot_reload, "find_served", lambda settings: (list(there), {}))
    engine = DamagedEngine()
    engine.damaged = {first.key: TORN}
    async with running(engine, (first, SECOND)) as services:
        for _ in range(3):
            await services.models.retry()
        assert engine.tries.count(first.key) == 1, "the pause is not over"
        (first.folder / "model.safetensors").write_bytes(b"new")
        await services.models.retry()
        assert engine.tries.count(first.key) == 2 and await route(services) == ["second"]
        monkeypatch.setattr(hot_reload, "PAUSES", (0,))
        (first.folder / "model.safetensors").write_bytes(b"newer")
        await services.models.retry()
        engine.damaged = {}
        await services.models.retry()
        assert engine.tries.count(first.key) == 4
        assert await route(services) == ["first"] and services.models.errors == {}
        assert SECOND.key in engine.loaded, "the others are not touched"


async def test_a_model_that_is_lost_in_a_restart_of_the_workers_leaves_the_catalog() -> None:
    engine = DamagedEngine()
    async with running(engine) as services:
        engine.fail(FIRST.key, TORN)
        assert await route(services) == ["second"]
        assert engine.tries.count(FIRST.key) == 1


async def test_a_server_that_was_ready_stays_ready_when_every_model_is_lost() -> None:
    engine = DamagedEngine()
    async with running(engine) as services:
        assert services.readiness == "ready"
        for each in MODELS:
            engine.loaded.pop(each.key)
            engine.fail(each.key, TORN)
        assert services.readiness == "ready"
        with pytest.raises(ModelFailed):
            await route(services)


async def test_a_start_without_any_model_that_loads_has_failed_until_one_does() -> None:
    engine = DamagedEngine()
    engine.damaged = {each.key: TORN for each in MODELS}
    async with running(engine) as services:
        assert services.readiness == "failed"


async def test_a_start_that_ends_with_an_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    services = Services(Settings(), DamagedEngine(), ModelCatalog(MODELS))
    monkeypatch.setattr(
        services.translator.detector, "load", Mock(side_effect=ImportError("no fasttext"))
    )
    await services.start()
    try:
        with pytest.raises(ImportError):
            await services.loaded()
        assert services.readiness == "failed"
        assert services.models.errors == {
            "start": "The models could not be loaded: ImportError: no fasttext"
        }
    finally:
        await services.stop()


async def test_a_stream_of_several_texts_shows_each_sentence_once() -> None:
    """The model of the last leg fails when the first text has begun."""

    class Listener:
        on_tokens = None

        def __init__(self) -> None:
            self.shown: list[tuple[int, int]] = []

        def on_sentence(self, text: int, position: int, sentence) -> None:
            self.shown.append((text, position))

    engine = DamagedEngine()
    async with running(engine) as services:
        engine.damaged[FIRST.key] = TORN
        await services.engine.unload(FIRST.key)
        listener = Listener()
        request = TranslationRequest(texts=("One. Two.", "Three."), source="en", target="de")
        await services.translator.translate(request, listener)
        assert sorted(listener.shown) == [(0, 0), (0, 1), (1, 0)]


async def test_the_log_has_the_reason_once_for_all_tries(monkeypatch, tmp_path, caplog) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(hot_reload, "PAUSES", (0,))
    monkeypatch.setattr(hot_reload, "find_served", lambda settings: ([FIRST, SECOND], {}))
    engine = DamagedEngine()
    engine.damaged = {FIRST.key: TORN}
    async with running(engine, (FIRST, SECOND)) as services:
        for _ in range(4):
            await services.models.retry()
        assert engine.tries.count(FIRST.key) == 5 and caplog.text.count(TORN) == 1
