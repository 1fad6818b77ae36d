"""Frequent short words, which show the language of a text at once."""

from __future__ import annotations

from functools import lru_cache

from server.text.languages import primary_subtag, table

_WORDS_PER_HIT = 20
"""A text is evidently in a language if it has more of its words than one in this many words."""


@lru_cache(maxsize=64)
def _frequent_words(language: str) -> frozenset[str]:
    """Returns the words of the table that are frequent in a language and rare in others; empty if it is not there."""
    rows = [row.partition(": ") for row in table("frequent_words")]
    return frozenset([word for code, _, words in rows if code == primary_subtag(language) for word in words.split()])


def is_evidently_in(text: str, language: str) -> bool:
    """Returns whether a text contains enough words that are frequent in this language and in few others. False is no
    evidence of another language. This test takes a tenth of the time of a detection."""
    frequent, words = _frequent_words(language), text.lower().split()
    return bool(frequent) and sum(map(frequent.__contains__, words)) > len(words) // _WORDS_PER_HIT
