"""Words that show the language of a text: frequent short words, and greetings, of which statistics know too little."""

from __future__ import annotations

import re
from functools import lru_cache

from server.text.languages import primary_subtag, table

_WORDS_PER_HIT = 20
"""A text is evidently in a language if it has more of its distinctive words than one in this many words."""
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_COUNTED = 50
"""Words among which the most frequent language of a text is chosen."""
_LONGEST = 40
"""A text of more characters is no greeting."""


@lru_cache(maxsize=3)
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


def greeting_languages(text: str) -> frozenset[str]:
    """Returns the codes of the languages in which the whole text is a greeting or a short answer; empty for other texts.
    Case and punctuation do not matter."""
    if len(text) > _LONGEST:
        return frozenset()
    plain = " ".join(_WORD.findall(text.replace("’", "'").lower()))
    return frozenset([language for language, greetings in words_by_language("greetings").items() if plain in greetings])
