"""The default model behind the whole server: no rule of tests.support.texts.hard_input is broken,
and placeholders and markup of interface strings and generated spans of every kind are kept."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.support.servers.live import ROOT, LiveServer
from tests.support.texts.hard_input import CASES, Case, broken_rules
from tests.support.texts.kept_parts import TEXTS

pytestmark = pytest.mark.slow
STRINGS = json.loads((ROOT / "tests/support/texts/locale_strings.json").read_text(encoding="utf-8"))
"""Strings in the style of the locale files of well-known projects: style, string, and protected
parts in order. A measure may have the decimal mark of the language: 12,5 MB."""

TARGETS = (("de", 0), ("fr", 1), ("es", 2))
THIRDS = not os.environ.get("EVERY_LANGUAGE")
"""Whether each language has a third of the texts, or all as in `make fuzz`."""


def share(texts: list, first: int) -> list:
    return texts[first :: len(TARGETS)] if THIRDS else texts


def translate(shipped: LiveServer, texts: str | list[str], source: str, target: str) -> Any:
    answer = shipped.post("/translate", {"q": texts, "source": source, "target": target})
    assert answer.status == 200, answer.body
    return answer.json()["translatedText"]


@pytest.mark.parametrize(("target", "first"), TARGETS)
def test_interface_strings_keep_their_placeholders(
    shipped: LiveServer, target: str, first: int
) -> None:
    strings = share(STRINGS, first)
    texts = [text for _, text, _ in strings]
    answers = translate(shipped, texts, "en", target)
    assert [
        (text, answer)
        for (_, text, parts), answer in zip(strings, answers, strict=True)
        if any(answer.count(part) != text.count(part) for part in parts)
    ] == []
    # Some words are the same in both languages, as in "Version %s".
    assert (
        sum(answer == text for text, answer in zip(texts, answers, strict=True)) <= len(texts) // 20
    )


@pytest.mark.parametrize(("target", "first"), TARGETS)
def test_marked_parts_are_kept(shipped: LiveServer, target: str, first: int) -> None:
    texts = share(TEXTS, first)
    answers = translate(shipped, [kept.text for kept in texts], "en", target)
    assert [
        (kept.text, answer, broken)
        for kept, answer in zip(texts, answers, strict=True)
        if (broken := kept.broken_rules(answer))
    ] == []


@pytest.fixture(scope="module")
def directions(shipped: LiveServer) -> set[tuple[str, str]]:
    languages = shipped.get("/languages").json()
    return {(item["code"], target) for item in languages for target in item["targets"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.source}-{case.target}")
def test_no_rule_is_broken(
    case: Case, shipped: LiveServer, directions: set[tuple[str, str]]
) -> None:
    if (case.source, case.target) not in directions:
        pytest.skip(f"no model from {case.source} to {case.target}")
    text = translate(shipped, case.text, case.source, case.target)
    assert broken_rules(case, text) == [], text
    assert translate(shipped, [case.text, "Hello!"], case.source, case.target)[0] == text
