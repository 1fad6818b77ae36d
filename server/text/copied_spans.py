"""Finds the names, codes, dates and measures of a text, which a translation repeats as they are written.

A model usually copies them. A translation is compared with its source, and only a sentence in which one is lost or
doubled is translated again with all of them masked.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from model.tokenizer import Encoding
from server.text.numbers import find_numbers, same_numbers
from server.text.protected_spans import ProtectedSpan, find_protected_spans
from server.text.segmentation import Span
from server.text.unicode_scripts import script_of, scripts_of

EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u20e3\u200d\U000e0020-\U000e007f]+"
)
WORD = re.compile(r"\w+")
_DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?(?![\w-])"
_VERSION = r"v\d+(?:\.\d+)*(?:-[a-z]+[\w.]*)?(?![\w-])|\d+(?:\.\d+){2,}(?:-[a-z]+[\w.]*)?(?![\w-])"
_HASH = r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}(?:-[0-9a-f]{4,12}){0,4}(?![\w-])"
_UNITS = (
    "km/h m/s mph km cm mm nm µm μm kg mg µg ml cl hl kB KB MB GB TB KiB MiB GiB TiB Mbit/s kbit/s kW MW GW kWh MWh Hz kHz "
    "MHz GHz °C °F px em rem dB ms ns mAh kcal kJ hPa dpi fps"
)
_MEASURE = rf"\d+(?:[.,]\d+)*[ \u00a0\u202f]?(?:{'|'.join(sorted(_UNITS.split(), key=len, reverse=True))})(?![\w/])"
MEASURE = re.compile(rf"(?<![\w.,:/+-])(?:{_DATE}|{_VERSION}|{_HASH}|{_MEASURE})")
"""ISO dates, versions, hashes, and numbers with a unit."""
# A4, COVID-19, sha256; report.pdf, example.org; and strings of 40 characters and more, which are not words.
NAME = re.compile(
    r"(?<![\w@./\\-])(?:[\w-]+(?:\.[\w-]+)*\."
    r"(?:com|org|net|eu|uk|edu|gov|pdf|txt|docx?|xlsx?|pptx?|od[tsp]|csv|zip|png|jpe?g|gif|svg|html?|xml|json)"
    r"|[^\W\d_]\w*-?\d\w*|\w{40,})(?!\w)"
)
DIGIT = re.compile(r"\d")


def copied_spans(text: str) -> list[ProtectedSpan]:
    """Returns the emoji, names, codes, dates and measures of a text."""
    if text.isascii() and not may_hold_name(text):
        return []
    found = [] if text.isascii() else [ProtectedSpan(*match.span(), "point") for match in EMOJI.finditer(text)]
    if may_hold_name(text):
        found += [ProtectedSpan(*match.span(), "number") for match in MEASURE.finditer(text)]
        found += [ProtectedSpan(*match.span(), "word") for match in NAME.finditer(text)]
    return without_overlaps(found)


def number_spans(text: str) -> list[ProtectedSpan]:
    """Returns the numbers of a text that are not part of a word."""
    return [ProtectedSpan(start, end, "number") for start, end in find_numbers(text)]


def lost_spans(text: str, target: str) -> bool:
    """Returns whether a translation lacks or doubles a copied span or a number of its source."""
    for span in copied_spans(text):
        written = text[span.start : span.end]
        if target.count(written) != text.count(written):
            return True
    return not same_numbers(text, target)


def byte_fallback_spans(text: str, language: str, encoding: Encoding) -> list[ProtectedSpan]:
    """Returns the emoji and the words in a foreign script that the encoding of `text` spells in bytes."""
    spelled = [
        offset for piece, offset in zip(encoding.pieces, encoding.offsets, strict=True) if piece.startswith("<0x")
    ]
    if not spelled:
        return []
    found = [ProtectedSpan(*match.span(), "point") for match in EMOJI.finditer(text)]
    found += [ProtectedSpan(start, end, "word") for start, end in foreign_script_spans(text, language)]
    return [
        span for span in without_overlaps(found) if any(low < span.end and span.start < high for low, high in spelled)
    ]


def do_not_translate_spans(text: str) -> list[Span]:
    """Returns all spans that every translation contains unchanged, but for numbers."""
    found = without_overlaps([*find_protected_spans(text), *copied_spans(text)])
    return [(span.start, span.end) for span in found]


def may_hold_name(text: str) -> bool:
    """Returns False where `NAME` and `MEASURE` cannot match. This test is much faster than the search."""
    return (
        "." in text[:-1]
        or DIGIT.search(text) is not None
        or (len(text) >= 40 and max(map(len, text.split()), default=0) >= 40)
    )


def foreign_script_spans(text: str, language: str) -> list[Span]:
    """Returns the words in letters that the language is not written with."""
    scripts = scripts_of(language)
    return [
        word.span()
        for word in WORD.finditer(text)
        if (letters := [script for character in word[0] if (script := script_of(character))])
        and not any(script in scripts for script in letters)
    ]


def without_overlaps(spans: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """Returns the spans in order, without those that overlap an earlier one of the sequence."""
    result: list[ProtectedSpan] = []
    for span in spans:
        at = bisect_left(result, span.start, key=lambda other: other.start)
        before = result[at - 1].end if at else 0
        after = result[at].start if at < len(result) else span.end
        if before <= span.start < span.end <= after:
            result.insert(at, span)
    return result
