"""Numbers that are written as words ("three hundred", "dreiundzwanzig", "quatre-vingts"), and whether a translation has them."""

from __future__ import annotations

import re
from functools import lru_cache

from server.text.languages import primary_subtag, table
from server.text.numbers import number_values

_TOKEN = re.compile(r"(?:\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,'\u00a0\u202f]\d{3})*)(?:[.,]\d+)?|[^\W\d_]+|[^\w\s]")
_GROUPS = re.compile(r"['\u00a0\u202f ]|[.,](?=\d{3}(?!\d))")
_JOINTS = {"en": ("and", "-"), "fr": ("et", "-", "de"), "es": ("y", "de")}
"""Words and signs between the words of one number. German writes it as one word."""
_GERMAN_JOINT = re.compile("und|ein")
_NO_NUMBER = re.compile(r"\b(?:po?u?r cent|por ciento|in acht|außer acht|tercera edad|un tercero)\b")
_HALF_HOUR = re.compile(r"halb|half|[cq]uart|viertel|past|menos|moins|demi|media")
_CLOCK = re.compile(r"\d ?(?:[ap]\.? ?m\b|h\b|:\d\d|uhr|heures?\b|o'clock)")
_ROMAN = {"II": 2, "III": 3, "IV": 4, "V": 5, "XIX": 19, "XX": 20, "XXI": 21}
_HOURS = 12


@lru_cache
def _words(language: str) -> tuple[re.Pattern[str], dict[int, tuple[str, ...]]]:
    """Returns the pattern of the words of a language, whose groups name their values, and beginnings of words that may mean
    a value."""
    groups, possible = [], {}
    for row in table("number_words"):
        words, _, beginnings = row.partition(" | ")
        code, value, *certain = words.split()
        if code == language:
            groups.append(f"(?P<n{value}>{'|'.join(certain)})")
            possible[int(value)] = tuple(beginnings.split())
    return re.compile("|".join(groups) or "(?!)"), possible


@lru_cache(maxsize=8192)
def _values(word: str, language: str) -> tuple[int, ...]:
    """Returns the values of the words that a word is made of; empty if it is no number."""
    pattern, found, at = _words(language)[0], list[int](), 0
    while at < len(word):
        if match := pattern.fullmatch(word, at) or (pattern.match(word, at) if language == "de" else None):
            found.append(int(str(match.lastgroup)[1:]))
        elif language != "de" or not (match := _GERMAN_JOINT.match(word, at)):
            return ()
        at = match.end()
    return tuple(found)


def _joined(value: float, word: int, language: str, inside: bool) -> float | None:
    """Returns the number that a word continues, or None if the word begins another one. `inside` says that it is a part of a
    longer word."""
    rest, french = value % 100, language == "fr"
    if word >= 1000:
        low = value % (1000 * word)
        return value + low * (word - 1) if low else None
    if word == 100 and rest:
        return value + 99 * rest
    if french and word == 20 and rest == 4:
        return value + 76
    if word < 10:
        fits = rest % 10 == 0 and (french or rest != 10)
    elif word < 100:
        fits = not rest or (french and word < 20 and rest in (60, 80)) or (language == "de" and inside and rest < 10)
    else:
        fits = value % 1000 == 0
    return value + word if fits else None


def _numbers(text: str, language: str) -> list[tuple[float, list[float], bool]]:
    """Returns the numbers of a text in small letters: the value, the values of its digits and words, and whether it has
    words."""
    found: list[tuple[float, list[float], bool]] = []
    follows, last = False, ""
    for token in _TOKEN.findall(_NO_NUMBER.sub(" ", text)):
        if token[0].isdecimal():
            value = float(_GROUPS.sub("", token).replace(",", "."))
            found.append((value, [value], False))
        values = _values(token, language)
        follows = follows and not (values == (1,) and last == "de")  # "veinte de un grupo"
        for place, word in enumerate(values):
            value, parts, written = found[-1] if follows or place else (0.0, [], False)
            joined = _joined(value, word, language, place > 0) if written or word >= 1000 else None
            if joined is None:
                found.append((word, [word], True))
            else:
                found[-1] = joined, [*parts, word], True
        last, follows = token, bool(values) or token[0].isdecimal() or (follows and token in _JOINTS.get(language, ()))
    return [each for each in found if each[1:] != ([1], True)]  # a word for 1 alone is rather an article


def _may_mean(text: str, language: str) -> set[float]:
    """Returns the values that words of a text in small letters may mean."""
    words, has = set(re.findall(r"[^\W\d_]+", text)), str.__contains__ if language == "de" else str.startswith
    possible = _words(language)[1].items()
    return {value for value, least in possible if any(has(word, each) for word in words for each in least)}


def written_otherwise(source: str, target: str, source_language: str, target_language: str) -> list[set[str]]:
    """Returns the numbers of a source that its translation has in another way, and the reverse: in words, with a word such as
    million, by the other clock, as a decade without its century."""
    texts = (source.lower(), primary_subtag(source_language)), (target.lower(), primary_subtag(target_language))
    sides = [(text, language, _numbers(text, language)) for text, language in texts]
    clock = any(_CLOCK.search(text) for text, _ in texts)
    found: list[set[str]] = []
    for (_, _, numbers), (text, language, others) in (sides, sides[::-1]):
        equal = {each for value, parts, in_words in others if in_words for each in (value, *parts)}
        if not found:
            equal |= _may_mean(text, language)
        half = _HALF_HOUR.search(text)
        values = equal.union([value for value, _, _ in others if value])  # the 0 of 11:00 is no hour
        for value, parts, _ in numbers:
            shift = _HOURS if clock and value < 2 * _HOURS else 1900 if value % 10 == 0 else 0
            is_half = half and (shift == _HOURS or value in (0.25, 0.5, 0.75, 1.5, 2.5, 30, 45))
            if is_half or (len(parts) > 1 and value in values) or (shift and values & {value - shift, value + shift}):
                equal.update(parts)
        found.append({f"{value:.12g}" for value in equal}.difference(number_values(text)))
    return found


def lost_number_words(source: str, target: str, source_language: str, target_language: str) -> bool:
    """Returns whether a number that the source has in words is not in the target, in words or in digits. What may be meant by
    a word of the target counts as there. Returns False for languages that are not in the table."""
    read, written = primary_subtag(source_language), primary_subtag(target_language)
    given, text = source.lower(), target.lower()
    wanted = [(value, parts) for value, parts, words in _numbers(given, read) if words]
    if not wanted or not _words(written)[1]:
        return False
    numbers = _numbers(text, written)
    values = {value for value, _, _ in numbers}
    meant = values.union([1], _may_mean(text, written), *[parts for _, parts, _ in numbers])
    meant.update([value for numeral, value in _ROMAN.items() if re.search(rf"\b{numeral}(?:er|e)?\b", target)])
    meant.update(*[_values(word, read) for word in set(given.split()).intersection(text.split())])
    half = _HALF_HOUR.search(given) or _HALF_HOUR.search(text)
    return not all(
        value in meant
        or (meant.issuperset(parts) and not (1 in parts and value % 10 == 1))  # in twenty-one, 1 is not an article
        or (value <= _HOURS and (half or value + _HOURS in values))
        or (half and value == 30)
        or (value % 10 == 0 and value + 1900 in values)
        for value, parts in wanted
    )
