"""Texts with protected spans of every kind, and the text that a translation word by word makes of
them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_DATA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
LEXICON = {language: words.split() for language, words in _DATA["lexicon"].items()}
IDENTIFIERS = _DATA["identifiers"].split()
_TEMPLATES: dict[str, list[str]] = _DATA["templates"]
_PAIRS: list[tuple[str, str]] = [(opening, closing) for opening, closing in _DATA["pairs"]]
KINDS = (*_TEMPLATES, "pair", "ICU")


@dataclass(frozen=True, slots=True)
class SpanText:
    """A text, its translation with every span in place, the kinds of its spans, and their protected
    parts."""

    text: str
    expected: str
    kinds: tuple[str, ...]
    parts: tuple[str, ...]


Part = tuple[str, str]
"""A part of a text and of its translation."""


class SpanTexts:
    """Generates texts in a language. `translate` translates a word."""

    def __init__(self, seed: int, language: str, translate: Callable[[str], str]) -> None:
        self._random = random.Random(f"{seed} {language}")
        self._lexicon = LEXICON[language]
        self._translate = translate
        self._protected: list[str] = []

    def next(self) -> SpanText:
        """Returns the next text."""
        self._protected = []
        kinds = self._random.sample(KINDS, self._random.choice((1, 1, 1, 2, 2, 3)))
        parts = self._words(self._random.randint(4, 8))
        for kind in kinds:
            parts.insert(self._random.randint(0, len(parts)), self._span(kind))
        end = self._random.choice((".", "!", "", "?"))
        source, target = (" ".join(part[side] for part in parts) + end for side in (0, 1))
        return SpanText(source, target, tuple(kinds), tuple(self._protected))

    def _words(self, number: int) -> list[Part]:
        return [
            (word, self._translate(word)) for word in self._random.choices(self._lexicon, k=number)
        ]

    def _span(self, kind: str) -> Part:
        if kind == "pair":
            opening, closing = self._random.choice(_PAIRS)
            self._protected += [opening, closing]
            return _surrounded(opening, self._words(self._random.randint(1, 3)), closing)
        if kind == "ICU":
            return self._message()
        name = self._random.choice(IDENTIFIERS)
        span = self._random.choice(_TEMPLATES[kind]).format(name)
        self._protected += [span] if kind != "number" else []
        opening, closing = self._random.choice(
            (("", ""), ("", ""), ("", ""), ("(", ")"), ('"', '"'), ("", ","))
        )
        return opening + span + closing, opening + span + closing

    def _message(self) -> Part:
        kind, arms = self._random.choice(
            (
                ("plural", ("=0", "one", "other")),
                ("select", ("male", "female", "other")),
                ("selectordinal", ("other",)),
            )
        )
        name = self._random.choice(IDENTIFIERS)
        head = f"{{{name}, {kind},"
        self._protected += [head, *[f" {arm} {{#" for arm in arms]]
        bodies = [_surrounded(f" {arm} {{# ", self._words(2), "}") for arm in arms]
        return _surrounded(head, bodies, "}", "")


def _surrounded(opening: str, parts: Sequence[Part], closing: str, space: str = " ") -> Part:
    source, target = (space.join(part[side] for part in parts) for side in (0, 1))
    return opening + source + closing, opening + target + closing
