"""Finds what a translation repeats as it is written: codes, names of files, emoji, formulas, measures, words of signs.

A model usually copies them. A translation is compared with its source (`server.text.protection.losses`), and only a
sentence in which one is lost or doubled is translated again with all of them masked.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from unicodedata import normalize

from server.text.languages import table
from server.text.numbers import is_formula
from server.text.segmentation import Span
from server.text.syntax import plain
from server.text.syntax.match import Match


def _patterns() -> dict[str, re.Pattern[str]]:
    """Returns the regular expressions of the table. One may name earlier ones in guillemets."""
    parts: dict[str, str] = {}
    for row in table("copied_spans"):
        key, _, pattern = row.partition(" ")
        parts[key] = re.sub("‹(\\w+)›", lambda part: parts[part[1]], pattern)
    return {key: re.compile(pattern) for key, pattern in parts.items()}


_PATTERNS = _patterns()
EMOJI, SIGN, RAISED, MEASURE, ROMAN, MAY_HOLD = [
    _PATTERNS[name] for name in ("emoji", "sign", "raised", "measure", "roman", "may_hold")
]
WORD, DIGIT = re.compile(r"\w+"), re.compile(r"\d")
_LETTER, _COLON = re.compile(r"[^\W_]"), re.compile(r"\d:\d")
_PROGRAMS = frozenset(_PATTERNS["PROGRAM"].pattern.split("|"))
_LONGEST = 300
_AROUND = "\"'([{<.,;:!?)]}>*-"
_BRACKETS = {")": "(", "]": "[", ">": "<"}


@lru_cache(maxsize=1024)
def copied_spans(text: str) -> Sequence[Match]:
    """Returns the emoji, names, codes, commands, formulas and measures of a text."""
    found: list[Match] = []
    if not _PROGRAMS.isdisjoint(text.split()):
        found += [Match(*match.span(), "word") for match in _PATTERNS["command"].finditer(text)]
    if MAY_HOLD.search(text) is None:
        return found
    if SIGN.search(text) or "&" in text or "..." in text or "- -" in text:
        found += [Match(*match.span(), "word") for match in _PATTERNS["expression"].finditer(text)]
    if DIGIT.search(text):
        found += [Match(*match.span(), "number") for match in MEASURE.finditer(text)]
    return without_overlaps([*found, *_codes(text), *_roman_numerals(text)])


def sign_spans(text: str) -> list[Match]:
    """Returns the signs of a text, each with the numbers beside it: "25 €", "≤ 10", "2 × 3", "©"; and guillemets without a
    partner, which are arrows."""
    spans = [
        Match(*match.span(), "number" if DIGIT.search(match[0]) else "point")
        for match in _PATTERNS["sign_with_numbers"].finditer(text)
    ]
    if arrows_of(text):
        spans += [Match(*match.span(), "point") for match in re.finditer("[«»]", text)]
    return spans


def arrows_of(text: str) -> str:
    """Returns the guillemets if a text has them without a partner."""
    return "" if text.count("«") == text.count("»") else "«»"


def acronym_spans(text: str) -> list[Match]:
    """Returns the words in capitals of a text."""
    return [Match(*word.span(), "word") for word in WORD.finditer(text) if len(word[0]) > 1 and word[0].isupper()]


def do_not_translate_spans(text: str) -> list[Span]:
    """Returns all spans that every translation contains unchanged, but for numbers."""
    protected = [span for span in plain.matches(text) if span.role != "apostrophe"]
    found = without_overlaps([*protected, *copied_spans(text)])
    return [(span.start, span.end) for span in found]


def without_overlaps(spans: Sequence[Match]) -> list[Match]:
    """Returns the spans in order, without those that overlap an earlier one of the sequence."""
    result: list[Match] = []
    for span in spans:
        at = bisect_left(result, span.start, key=lambda other: other.start)
        before = result[at - 1].end if at else 0
        after = result[at].start if at < len(result) else span.end
        if before <= span.start < span.end <= after:
            result.insert(at, span)
    return result


def _codes(text: str) -> list[Match]:
    """Returns the codes of a text. Two in capitals after each other are one: SW1A 1AA."""
    found: list[Match] = []
    primes = "′″" + ("" if _PATTERNS["quote"].search(text) else "'")
    primes += '"' if text.count('"') % 2 or not re.search(r'(?<!\d)"', text) else ""
    for token in _PATTERNS["token"].finditer(text):
        for span in _spans_of(token, primes) if MAY_HOLD.search(token[0]) else ():
            last = found[-1] if found else span
            both = text[last.start : last.end] + text[span.start : span.end]
            if text[last.end : span.start] == " " and both.isalnum() and both.isupper():
                found[-1] = last._replace(end=span.end)
            else:
                found.append(span)
    return found


def _spans_of(token: re.Match[str], primes: str) -> Sequence[Match]:
    """Returns the codes of a token. After digits the `primes` stand for minutes, feet or inches."""
    start, word = token.start(), token[0]
    if len(word) > _LONGEST:  # no word, unless its script has no spaces
        return [Match(*token.span(), "word")] if word.isascii() else []
    core = word.strip(_AROUND)
    if EMOJI.match(word) or not _LETTER.search(core):
        is_span = EMOJI.match(word) or (len(word) > 1 and SIGN.search(word))
        return [Match(*token.span(), "word" if core.isalnum() else "point")] if is_span else []
    first = word.index(core)
    last = first + len(core)
    while last < len(word) and _goes_on(word, first, last, primes):
        last += 1
    core = word[first:last]
    if RAISED.search(core) and not _PATTERNS["code"].search(core):
        return _raised(start + first, core)
    bare = _PATTERNS["words_after"].sub("", core)
    code = normalize("NFC", bare)
    if bare[-1] in primes or (
        _PATTERNS["code"].search(code) and (not _PATTERNS["ordinary"].fullmatch(code) or _COLON.search(code))
    ):
        return [Match(start + first, start + first + len(bare), "number" if bare[0].isdigit() else "word")]
    return [Match(start + name.start(), start + name.end(), "word") for name in _PATTERNS["name"].finditer(word)]


def _goes_on(word: str, first: int, last: int, primes: str) -> bool:
    """Returns whether the mark at `last` belongs to the code at `first`: a prime after a digit, or a bracket or quote whose
    partner is in the code."""
    opening = _BRACKETS.get(word[last])
    if opening:
        return word.count(opening, first, last) > word.count(word[last], first, last)
    quotes = word.count('"', first, last) if word[last] == '"' else 0
    return quotes % 2 > 0 or word.startswith("()", last) or (word[last] in primes and word[last - 1].isdigit())


def _raised(start: int, word: str) -> list[Match]:
    """Returns a word with raised digits as a whole, or only the digits if they are the number of a note."""
    letters = "".join(filter(str.isalpha, RAISED.sub("", word)))
    if is_formula(letters):
        return [Match(start, start + len(word), "word" if letters else "number")]
    return [Match(start + note.start(), start + note.end(), "point") for note in RAISED.finditer(word)]


def _roman_numerals(text: str) -> list[Match]:
    """Returns the Roman numerals of a text that is not in capitals."""
    return [
        Match(*match.span(), "word")
        for match in (_PATTERNS["capitals"].finditer(text) if not text.isupper() else ())
        if ROMAN.fullmatch(match[0])
        and not _PATTERNS["no_roman"].search(text[max(0, match.start() - 7) : match.start()])
    ]
