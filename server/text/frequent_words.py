"""Frequent short words, which show the language of a text."""

from __future__ import annotations

from functools import lru_cache

from server.text.languages import primary_subtag, table

_WORDS_PER_HIT = 20
"""A text is evidently in a language if it has more of its distinctive words than one in this many words."""
_COUNTED = 50
"""Words among which the most frequent language of a text is chosen."""


@lru_cache(maxsize=2)
def words_by_language(name: str) -> dict[str, frozenset[str]]:
    """Returns the words or phrases of a table by language."""
    phrases: dict[str, frozenset[str]] = {}
    for row in table(name):
        language, _, listed = row.partition(": ")
        phrases[language] = phrases.get(language, frozenset()).union(listed.split(", "))
    return phrases


@lru_cache(maxsize=64)
def distinctive_words(language: str) -> frozenset[str]:
    """Returns the frequent words of a language that no other language of the table shares; empty if it is not there."""
    code, lists = primary_subtag(language), words_by_language("frequent_words")
    others = [words for other, words in lists.items() if other != code]
    return lists.get(code, frozenset()).difference(*others)


@lru_cache(maxsize=64)
def _foreign_words(language: str) -> dict[str, str]:
    """Returns the distinctive words of the other languages of the table, with their language."""
    code = primary_subtag(language)
    others = [other for other in words_by_language("frequent_words") if other != code]
    return {word: other for other in others for word in distinctive_words(other)}


def evident_language(text: str, expected: str, least: int = 1) -> tuple[str, int] | None:
    """Returns the language of which a text has the most distinctive words, `least` or more, and their number, if these are
    more than three times as many as those of the expected language."""
    foreign, words = _foreign_words(expected), text.lower().split()
    if foreign.keys().isdisjoint(words):
        return None
    found = [foreign[word] for word in words if word in foreign]
    if len(found) < least:
        return None
    language = max(found[:_COUNTED], key=found.count)
    count, own = found.count(language), sum(map(distinctive_words(expected).__contains__, words))
    return (language, count) if count >= least and count > 3 * own else None


def is_evidently_in(text: str, language: str) -> bool:
    """Returns whether a text contains enough words that are frequent in this language and in no other of the table.
    False is no evidence of another language."""
    distinctive, words = distinctive_words(language), text.lower().split()
    return bool(distinctive) and sum(map(distinctive.__contains__, words)) > len(words) // _WORDS_PER_HIT
