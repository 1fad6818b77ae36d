"""Texts of every syntax, as a hostile model translates them: each code is written once, byte for
byte, pairs are nested, what is written is well-formed, and nothing is written that neither the
source nor the model has.

`HOSTILE_TEXTS` is the number of texts and `HOSTILE_SEED` the first of their seeds; `make fuzz` has
more of them."""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from dataclasses import replace
from types import ModuleType

import pytest

from model.search.options import DecodingOptions
from model.symbols import FORMAL
from server.config import Settings
from server.services import Services
from server.text import finishing
from server.translation.preparation import prepare
from server.translation.types import TranslationRequest
from tests.support.engine.hostile_engine import NAMED, SYMBOLS, HostileEngine, HostileTokenizer
from tests.support.texts.hostile_checks import (
    CATALOGS,
    GLOSSARY,
    KEPT,
    HostileTranslation,
    written_faults,
)
from tests.support.texts.tagged_texts import TaggedTexts

TEXTS, SEED = (
    int(os.environ.get("HOSTILE_TEXTS", "10000")),
    int(os.environ.get("HOSTILE_SEED", "48")),
)
SERVED = max(100, TEXTS // 50)
EXACT = (
    "4x4", "(15)", "A4", "12.50", "3.10", "house[15]", "7:45", "C++", "+49 30 123456", "a_b",
    "150 ml", "5 ft 10 in", "2 l",
)  # fmt: skip
"""Exact tokens, which a hostile model loses and doubles."""
RULES = {
    "atomic: a code replaces its stand-in": (
        "max(done, event.at + event.stand_in)",
        "max(done, event.at)",
    ),
    "once: what the model wrote is not placed again": (
        "number in present or number in closed",
        "number in closed",
    ),
    "once: what the model dropped is placed": (
        "number in present or number in closed",
        "code.word or number in closed",
    ),
    "once: a second stand-in is taken out": ("if match.span() not in taken]", "if False]"),
    "once: a symbol that was not read is taken out": (
        "if match[0] not in reading.text\n",
        "if False\n",
    ),
    "nested: an element keeps those within it": ("element.order < last.end", "False"),
    "ordered: an end comes before a later start": (
        "max(low, min(span[0], limit))",
        "max(done, min(span[0], end))",
    ),
    "ordered: elements at one place keep their order": (
        "(part[2][0], part[0].order)",
        "(part[2][0], -part[0].order)",
    ),
}
"""The rules of `finishing`, and how each of them is removed."""


def faults(
    texts: int, seed: int, module: ModuleType = finishing, kinds: Counter[str] | None = None
) -> list[str]:
    """Returns the first faults in some texts, and counts their codes in `kinds`."""
    generated = TaggedTexts(seed)
    counted = Counter() if kinds is None else kinds
    found: list[str] = []
    for number in range(texts):
        text = generated.next()
        counted.update([kind for kind, _ in text.marks])
        try:
            found += [
                f"{seed}/{number} {text.text!r}: {fault}"
                for fault in HostileTranslation(text, number, 1, module).run()
            ]
        except Exception as error:
            raise AssertionError(f"seed {seed}, text {number}: {text.text!r}") from error
        if len(found) >= 5:
            break
    return found


@pytest.mark.slow
def test_every_code_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = Counter[str]()
    found = faults(TEXTS, SEED, finishing, kinds)
    with capsys.disabled():
        codes = ", ".join([f"{count} {kind}" for kind, count in sorted(kinds.items())])
        print(f"\nhostile model: {TEXTS} texts, seed {SEED}; numbered codes: {codes}")  # noqa: T201
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_missing_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = RULES[rule]
    source = inspect.getsource(finishing)
    assert source.count(old) == 1
    module = ModuleType("changed")
    monkeypatch.setitem(sys.modules, "changed", module)
    exec(compile(source.replace(old, new), "changed", "exec"), module.__dict__)
    assert any(faults(2_000, SEED + further, module) for further in range(5))


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", [SYMBOLS, NAMED], ids=["symbols", "names"])
async def test_translator(tokenizer: HostileTokenizer) -> None:
    generated, catalog = TaggedTexts(SEED + 1), CATALOGS[tokenizer]
    services = Services(Settings(), HostileEngine(tokenizer, SEED), catalog)
    await services.start()
    try:
        await services.loaded()
        for number in range(SERVED):
            text = generated.next()
            exact = EXACT[number % len(EXACT)] if text.format == "text" and number % 2 else ""
            if exact:
                text = replace(text, text=f"{exact} {text.text}")
            request = TranslationRequest(
                texts=(text.text,), source="en", target="de", format=text.format,
                options=DecodingOptions(beam_size=4, hypotheses=number % 3 + 1, rerank=number % 7 == 0),
                glossary=GLOSSARY if number % 4 == 0 else None, do_not_translate=KEPT if number % 5 == 0 else (),
                formality=FORMAL if number % 3 == 0 else None, on_flag="retry" if number % 6 == 0 else "mark",
            )  # fmt: skip
            [prepared] = prepare(request, catalog, services.translator.detector)
            [translation] = await services.translator.translate(request)
            assert prepared.segmented is not None
            for written in (translation.text, *translation.alternatives):
                found = list(written_faults(text, prepared.segmented.tagged, written))
                assert not found, (SEED, number, text.text, found)
            if not request.options.rerank:  # the best translation does not depend on the others
                request.options = replace(request.options, hypotheses=1)
                [alone] = await services.translator.translate(request)
                assert alone.text == translation.text, (SEED, number, text.text)
            kept = "".join(exact.removeprefix("house").split())  # 5ml is 5 ml
            assert kept in "".join(translation.text.split()), (
                SEED,
                number,
                text.text,
                translation.text,
            )
    finally:
        await services.stop()
