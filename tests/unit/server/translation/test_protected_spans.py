"""Every protected span comes back once, unchanged and in its place, whatever the model does with
its stand-in."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from fastapi.testclient import TestClient

from server.config import Settings
from server.services import Services
from server.text.numbers import with_formats
from server.translation.catalog import ModelCatalog
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import fake_model
from tests.support.engine.faulty_engine import FaultyEngine, WordTokenizer, translated_word
from tests.support.texts.generated_spans import KINDS, SpanTexts
from tests.support.texts.kept_parts import TEXTS

DIRECTIONS = [("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"), ("en", "es"), ("es", "en")]
_BATCH = 100
MANY = 200


async def losses(
    kind: str, direction: tuple[str, str], cases: int, seed: int
) -> list[tuple[str, str, str]]:
    """Translates generated texts. Returns those that differ from the expected text, as (text,
    expected, translation)."""
    tokenizer = WordTokenizer(kind)
    model = dataclasses.replace(fake_model(pairs=DIRECTIONS), tokenizer=tokenizer)
    services = Services(Settings(), FaultyEngine(tokenizer, seed), ModelCatalog([model]))
    await services.start()
    await services.loaded()
    texts = SpanTexts(seed, direction[0], translated_word)
    seen: set[str] = set()
    wrong = []
    for _ in range(0, cases, _BATCH):
        batch = [texts.next() for _ in range(min(_BATCH, cases))]
        request = TranslationRequest(
            texts=tuple([case.text for case in batch]),
            source=direction[0],
            target=direction[1],
            remember=False,
        )
        for case, found in zip(batch, await services.translator.translate(request), strict=True):
            seen |= set(case.kinds)
            if found.text != (expected := with_formats(case.text, case.expected, *direction)):
                wrong.append((case.text, expected, found.text))
    await services.stop()
    assert cases < MANY or seen == set(KINDS)
    return wrong


@pytest.mark.parametrize("kind", ["symbols", "names", "none"])
def test_generated_spans_are_kept(kind: str) -> None:
    assert asyncio.run(losses(kind, ("en", "de"), 60, seed=1)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["symbols", "names", "none"])
@pytest.mark.parametrize("direction", DIRECTIONS, ids="-".join)
def test_many_generated_spans_are_kept(kind: str, direction: tuple[str, str]) -> None:
    assert asyncio.run(losses(kind, direction, MANY, seed=2)) == []


def test_parts_are_kept_by_a_model_that_reverses_its_text(client: TestClient) -> None:
    texts = [kept for kept in TEXTS if kept.kind != "copied"]
    asked = {"q": [kept.text for kept in texts], "source": "en", "target": "de"}
    answers = client.post("/translate", json=asked).json()["translatedText"]
    assert [
        (kept.text, answer, broken)
        for kept, answer in zip(texts, answers, strict=True)
        if (broken := kept.broken_rules(answer))
    ] == []
