"""Words that stand for protected spans in the text that a model reads: symbols of its vocabulary, names or numbers.

A model that was trained with symbols for placeholders (`model.symbols`) copies them. Any other model copies names and
numbers best. They are used if the vocabulary has each name as one piece and each digit, and if the text does not
contain them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from model.symbols import PLACEHOLDERS
from model.tokenizer import Tokenizer
from server.text.protection.find import ProtectedSpan

NAMES = ("Tom", "Linux", "Boston", "Google", "David")
NUMBERS = ("27", "42", "36", "58", "63")
"""Measured: the default model repeats "Tom" and "27" in more sentences than other names and numbers."""


@dataclass(frozen=True, slots=True)
class StandIns:
    """The stand-ins of one model. Without any, protected spans are taken out of the text that the model reads."""

    symbols: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def choose(self, text: str, spans: Sequence[ProtectedSpan]) -> dict[str, str]:
        """Returns a stand-in for each distinct span of the text that stands for a word, as far as there are enough."""
        free = {
            "word": [word for word in (self.symbols or self.names) if word not in text][::-1],
            "number": [word for word in (self.symbols or self.numbers) if word not in text][::-1],
        }
        if self.symbols:
            free["number"] = free["word"]
        chosen: dict[str, str] = {}
        for span in spans:
            original = text[span.start : span.end]
            left = free["number" if span.role == "number" else "word"]
            if span.role in ("word", "number", "icu") and original not in chosen and left:
                chosen[original] = left.pop()
        return chosen


@lru_cache(maxsize=64)
def stand_ins_of(vocabulary: Tokenizer) -> StandIns:
    """Returns the stand-ins that a vocabulary has."""
    symbols = tuple([symbol for symbol in PLACEHOLDERS if vocabulary.is_piece(symbol)])
    if symbols:
        return StandIns(symbols)
    numbers = NUMBERS if all(vocabulary.is_piece(digit) for digit in "0123456789") else ()
    return StandIns((), tuple([name for name in NAMES if vocabulary.is_piece(name)]), numbers)


@lru_cache(maxsize=256)
def stand_in_pattern(words: frozenset[str]) -> re.Pattern[str]:
    """Returns a pattern that finds the stand-ins in a translation; without any it matches nothing. A name may have the s
    of a genitive, which is not part of the match."""
    parts = []
    for word in sorted(words, key=len, reverse=True):
        if word[0].isdigit():
            parts.append(rf"(?<![\w.,:-]){word}(?![\w:-]|[.,]\d)")
        elif word[0].isalpha():
            parts.append(rf"(?<!\w){word}(?=s?(?!\w))")
        else:
            parts.append(re.escape(word))
    return re.compile("|".join(parts) or r"(?!)")
