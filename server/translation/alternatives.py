"""Which further translations of a text are worth showing beside the best one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from server.text.protection.glossary import NO_SPACES

_WORD = re.compile(r"\w+")


def distinct_alternatives(best: str, others: Sequence[str]) -> tuple[str, ...]:
    """Returns the other translations in order, without those that say the same as the best or an earlier one: with other
    punctuation, spaces or case of the first and last word, and without those that only add words to the end of the best."""
    first = _words(best)
    start = [*map(str.casefold, first)]
    seen = {first}
    kept = []
    for other in others:
        words = _words(other)
        if words not in seen and not (
            len(words) > len(first) > 0 and [*map(str.casefold, words[: len(first)])] == start
        ):
            kept.append(other)
        seen.add(words)
    return tuple(kept)


def _words(text: str) -> tuple[str, ...]:
    """Returns the words, or the characters of a script without spaces, with the first and the last in small letters."""
    words = [part for word in _WORD.findall(text) for part in (word if NO_SPACES.search(word) else [word])]
    ends = (0, len(words) - 1)
    return tuple([word.casefold() if place in ends else word for place, word in enumerate(words)])
