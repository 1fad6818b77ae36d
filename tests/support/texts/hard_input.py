"""Hard input, and rules for its translation that hold for every model.

The rules: a translation is not empty, has the same line structure, is not many times longer,
contains no loop, and is in capitals if the source is. It contains all addresses, emoji, words in
foreign scripts and numbers of the source, and the strings in `kept`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

from model.search.repetition import LONGEST_PERIOD, longest_loop
from server.text.exact_tokens import kept_spans
from server.text.languages import script_of, scripts_of
from server.text.numbers import number_difference
from server.text.reading import is_all_caps

NO_WORDS = Mock(is_piece=lambda word: False)
"""A vocabulary without whole words."""


@dataclass(frozen=True, slots=True)
class Case:
    """One text in language `source` and its target language; the strings in `kept` must occur
    unchanged in the translation."""

    name: str
    source: str
    target: str
    text: str
    kept: tuple[str, ...] = ()


_LINES = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
CASES = tuple([Case(**json.loads(line)) for line in _LINES if line])


def broken_rules(case: Case, answer: str) -> list[str]:
    """Returns the broken rules of a translation as phrases; an empty list if it keeps all."""
    text, found = case.text, []
    if text.strip() and not answer.strip():
        return ["empty"]
    if "\ufffd" in answer:
        found.append("a replacement character")
    if re.findall(r"[\n\t]", text) != re.findall(r"[\n\t]", answer):
        found.append("other lines or columns")
    if [not line.strip() for line in text.split("\n")] != [
        not line.strip() for line in answer.split("\n")
    ]:
        found.append("lines empty or full that were not")
    solid = [text[start:end] for start, end in kept_spans(text)]
    solid += [word[0] for word in re.finditer(r"\w+", text) if is_foreign(word[0], case.source)]
    found += [
        f"lost {part}" for part in (*case.kept, *solid) if answer.count(part) < text.count(part)
    ]
    if any(number_difference(text, answer)[:2]):
        found.append("lost a number")
    if len(answer) > 3 * len(text) + 30:
        found.append(f"{len(answer)} characters from {len(text)}")
    if _loop_characters(answer) > max(20, 3 * _loop_characters(text)):
        found.append("a loop")
    if is_all_caps(text, NO_WORDS) and any(
        word != word.upper() for word in re.findall(r"\w+", answer) if word not in text
    ):
        found.append("not in capitals")
    return found


def _loop_characters(text: str) -> int:
    """Returns the characters of the longest loop of a text. A token has about four characters, and
    so has a period."""
    return longest_loop([ord(character) for character in text.lower()], 4 * LONGEST_PERIOD)


def is_foreign(word: str, language: str) -> bool:
    """Returns whether all letters of a word are of scripts that the language is not written
    with."""
    scripts = [script for character in word if (script := script_of(character))]
    return bool(scripts) and scripts_of(language).isdisjoint(scripts)
