"""Compares a translation with its source: what it lost, doubled, invented or spelled in another way."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import normalize

from server.text.number_words import written_otherwise
from server.text.numbers import find_numbers, lost_ordinal, roman_value, same_numbers
from server.text.protection.copied import DIGIT, MEASURE, ROMAN, SIGN, arrows_of, copied_spans
from server.text.segmentation import Span

_OF_PROGRAMS = re.compile(r"[\\^`{|}~<>_*†‡]")
_SPELLINGS = str.maketrans("–—−‐‑’‘′”“″,\u00a0\u202f", "-----'''\"\"\".  ")
_BEFORE_UNIT = re.compile(r"(?<=\d)[ -](?=[^\W\d_])| (?=[+(])")
_DECIMAL = re.compile(r"(?:(?<!\w)([^\W\d_]{2,30}) )?(?<![\w.,:])(\d+)\.(\d+)(?![\w/]|[.,:]\d)")
_WITH_MARK = re.compile(r"\d+[.,]\d+")
_TIME = re.compile(r"(?<=\d)(?:\.(?=\d\d Uhr)| ?h ?(?=\d\d\b))")
_VARIABLE = re.compile(r"(?<=\d):00\b|(?<=m)[23²³](?!\w)|(?<=°) ?[NSEWO]\b|(?<=\d)s\b")
"""What translations leave out or write otherwise: full hours, powers of units, points of the compass, plurals."""
_UNIT = "/°%abcdefghijklmnopqrstuvwxyzµμ"
_VERSION = re.compile(r"\d\.\d+\.\d")
_GROUP = 3
"""Digits of a group of thousands."""
_LABELS = frozenset("version release update build section chapter figure table appendix part step rule".split())
"""Words before a number with a point that is no amount."""


@lru_cache(maxsize=1024)
def lost_spans(text: str, target: str) -> bool:
    """Returns whether a translation lacks or doubles a copied span, a sign or a number of its source, or has a character
    that is not one."""
    if "\ufffd" in target and "\ufffd" not in text:
        return True
    signs = {*SIGN.findall(text), *arrows_of(text), *_OF_PROGRAMS.findall(target)}
    if signs and any(target.count(sign) != text.count(sign) for sign in signs):
        return True
    if spans := copied_spans(text):
        given, written = _folded(text), _folded(target)
        parts = [given[span.start : span.end] for span in spans]
        if any(_count(part, written) != _count(part, given) for part in parts):
            return True
    return not same_numbers(text, target)


def lost_numbers(text: str, target: str, source_language: str = "", target_language: str = "") -> bool:
    """Returns whether a translation lacks or doubles a number or a code of its source, or has another. The languages tell which
    numbers it has in words, by the other clock or with another unit."""
    if not (lost_spans(text, target) or lost_ordinal(text, target)):
        return False
    text, target = [_TIME.sub(":", side) for side in (text, target)]
    lacks, adds = written_otherwise(text, target, source_language, target_language)
    text, target = [_VARIABLE.sub("", side) for side in (text, target)]
    given, written = [_code(side) for side in (text, target)]
    measures = {_code(measure[0]).rstrip(_UNIT) for measure in MEASURE.finditer(target)}
    for span in copied_spans(text):
        word = text[span.start : span.end]
        part = _code(word)
        if written.count(part) == given.count(part):
            continue
        if ROMAN.fullmatch(word):
            is_same = roman_value(word) in lacks
        elif MEASURE.fullmatch(word):  # a unit may be spelled out, but not be another one
            is_same = part.rstrip(_UNIT) not in measures
        else:
            is_same = (part[-3:-2] == "-" and part[:-3] in lacks) or not any(map(str.isnumeric, word))
        if not is_same:
            return True
    return not same_numbers(text, target, lacks, adds) or lost_ordinal(text, target, lacks)


def respelled(text: str, target: str, decimal_point: bool = True) -> str:
    """Returns a translation of the same length, with the codes and ranges of its source in their spelling: with its
    capitals, dashes and primes, and in versions with its points. `decimal_point` says that the language of the source writes
    decimals with a point."""
    spans = [(span.start, span.end) for span in copied_spans(text)]
    spans = [(start, end) for start, end in spans if not MEASURE.fullmatch(text, start, end)]
    if DIGIT.search(text):
        spans += [(start, end) for start, end in find_numbers(text) if not text[start:end].isascii()]
        spans += _versions(text, target, decimal_point)
    for written in dict.fromkeys([text[start:end] for start, end in spans]):
        if target.count(written) < text.count(written):
            for found in re.finditer(rf"(?<!\w){re.escape(_folded(written))}(?!\w)", _folded(target)):
                target = target[: found.start()] + written + target[found.end() :]
    if not text.isascii():
        for letter in set(text):  # a vocabulary has the Greek letter in place of the micro sign
            normal = normalize("NFKC", letter)
            if normal != letter and len(normal) == 1 and normal.isalpha() and normal not in text:
                target = target.replace(normal, letter)
    return target


def _versions(text: str, target: str, decimal_point: bool) -> list[Span]:
    """Returns the numbers with a point that are labels and no amounts: after a word that labels have, or that the translation
    repeats before them, or beside a number that keeps its point or has several."""
    numbers = [number for number in _DECIMAL.finditer(text) if decimal_point or len(number[3]) != _GROUP]
    written = set(_WITH_MARK.findall(target))
    if not any(f"{number[2]},{number[3]}" in written for number in numbers):
        return []
    keeps = _VERSION.search(text) or any(
        len(number[3]) != _GROUP and f"{number[2]}.{number[3]}" in written for number in numbers
    )
    words = target.casefold()
    return [
        (number.start(2), number.end(3))
        for number in numbers
        if keeps or (word := (number[1] or "\0").casefold()) in _LABELS or f"{word} {number[2]},{number[3]}" in words
    ]


def _count(part: str, text: str) -> int:
    """Returns how often a folded code is in a folded text, and not within another code. A genitive s may follow."""
    if part not in text or not (part[0].isalnum() and part[-1].isalnum()):
        return text.count(part)
    return len(re.findall(rf"(?<![a-z0-9]){re.escape(part)}(?!(?!s\b)[a-z0-9])", text))


def _code(text: str) -> str:
    """Returns a folded text in which 7:2 is 7-2, and units follow their numbers."""
    return re.sub(r"(?<=\d):(?=\d)", "-", _BEFORE_UNIT.sub("", _folded(text)))


def _folded(text: str) -> str:
    """Returns a text of the same length that is equal for two spellings of a code."""
    folded = text.translate(_SPELLINGS).lower()
    return folded if len(folded) == len(text) else text
