"""Finds the names, codes, dates and measures of a text, which a translation repeats as they are written.

A model usually copies them. A translation is compared with its source, and only a sentence in which one is lost or
doubled is translated again with all of them masked.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import lru_cache
from unicodedata import normalize

from model.tokenizer import Encoding
from server.text.languages import script_of, scripts_of
from server.text.numbers import find_numbers, is_formula, lost_ordinal, same_numbers
from server.text.protection.codes import ROMAN, code_spans, letter_code_spans
from server.text.protection.find import ProtectedSpan, find_protected_spans
from server.text.segmentation import Span

EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u20e3\u200d\U000e0020-\U000e007f]+"
)
WORD = re.compile(r"\w+")
_OF_PROGRAMS = re.compile(r"[\\^`{|}~<>_*†‡]")
_SIGN = (
    r"[\\^`{|}~<>_*\u00a2-\u00a7\u00a9\u00ac\u00ae-\u00b1\u00b6\u00d7\u00f7\u2020\u2021\u2030-\u2034\u203f\u2040\u20a0-\u20cf\u2100-\u214f"
    "\u2200-\u22ff\u2500-\u25ff\u27c0-\u27ef\u2800-\u28ff\u2900-\u2aff]"
)
SIGN = re.compile(_SIGN)
"""Signs that are neither letters nor punctuation: currencies but for the dollar, mathematics, ©, §, those of programs."""
_NUMBER, _SPACE = r"\d(?:[\d.,:/'’–-]*\d)?", "[ \u00a0\u202f]?"
SIGNS = re.compile(rf"(?:(?<![\w.,:/'’–-]){_NUMBER}{_SPACE})?{_SIGN}+(?:{_SPACE}{_NUMBER}(?!\w))?")
_RAISED = "[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u2188\u2460-\u24ff\U0001d400-\U0001d7ff]"
RAISED = re.compile(rf"{_RAISED}+")
"""Superscripts, fractions, Roman numerals, letters in circles and of mathematics, which a vocabulary writes as ordinary
ones: 3½ as 31⁄2."""
_RAISED_WORD = re.compile(r"[\w\u207a\u207b]+")
MARK = re.compile(r"[\u0300-\u036f\u0483-\u0489\u20d0-\u20ff]")
"""Marks on letters. A vocabulary has letters with one mark, and spells the others in bytes."""
_MARKED_WORD = re.compile(rf"(?:\w|{MARK.pattern})+")
_ANGLE = r"\d{1,3}°\d{1,2}[′'](?:\d{1,2}(?:[.,]\d+)?[″\"])?[NSEWO](?!\w)"
_UNITS = (
    "km/h m/s mph km cm mm nm µm μm kg mg µg ml cl hl kB KB MB GB TB KiB MiB GiB TiB Mbit/s kbit/s kW MW GW kWh MWh Hz kHz "
    "MHz GHz °C °F px em rem dB ms ns mAh kcal kJ hPa dpi fps"
)
_MEASURE = rf"\d+(?:[.,]\d+)*[ \u00a0\u202f]?(?:{'|'.join(sorted(_UNITS.split(), key=len, reverse=True))})(?![\w/])"
MEASURE = re.compile(rf"(?<![\w.,:/+-])(?:{_MEASURE}|{_ANGLE})")
"""Numbers with a unit, and coordinates."""
# report.pdf, example.org, java.util.Map; and strings of 40 characters and more, which are not words.
NAME = re.compile(
    r"(?<![\w@./\\-])(?:[\w-]+(?:\.[\w-]+)*\."
    r"(?:com|org|net|info|eu|uk|de|fr|es|ch|edu|gov|pdf|txt|docx?|xlsx?|pptx?|od[tsp]|csv|zip|png|jpe?g|gif|svg|html?|xml"
    r"|json|ya?ml|toml|ini|cfg|log|md|py|js|ts|css|php|sh|exe|mp[34])"
    r"|\w{40,}|[a-z_]\w+(?:\.[^\W\d]\w+){2,})(?!\w)"
)
_SYMBOLS = re.compile(r"(?<![!-~\u00a1-\u024f])(?:[^\w\s]|_){2,}(?![!-~\u00a1-\u024f])")
"""Words of signs: =>, ^_^, (╯°□°)╯."""
DIGIT = re.compile(r"\d")
LONG = re.compile(r"\S{40}")


def copied_spans(text: str) -> list[ProtectedSpan]:
    """Returns the emoji, names, codes, dates and measures of a text."""
    found: list[ProtectedSpan] = []
    if SIGN.search(text):
        found += [ProtectedSpan(*match.span(), "point") for match in _SYMBOLS.finditer(text) if SIGN.search(match[0])]
    if not text.isascii():
        found += [ProtectedSpan(*match.span(), "point") for match in EMOJI.finditer(text)]
        if RAISED.search(text):
            found += [span for match in _RAISED_WORD.finditer(text) for span in _raised_spans(match)]
        if MARK.search(text):
            words = _MARKED_WORD.finditer(text)
            found += [ProtectedSpan(*word.span(), "word") for word in words if MARK.search(normalize("NFC", word[0]))]
    if may_hold_name(text):
        found += [ProtectedSpan(*match.span(), "number") for match in MEASURE.finditer(text)]
        found += code_spans(text)
        found += [ProtectedSpan(*match.span(), "word") for match in NAME.finditer(text)]
    return without_overlaps([*found, *letter_code_spans(text)])


def number_spans(text: str) -> list[ProtectedSpan]:
    """Returns the numbers of a text that are not part of a word."""
    return [ProtectedSpan(start, end, "number") for start, end in find_numbers(text)]


def sign_spans(text: str) -> list[ProtectedSpan]:
    """Returns the signs of a text, each with the numbers beside it: "25 €", "≤ 10", "2 × 3", "©"."""
    return [
        ProtectedSpan(*match.span(), "number" if DIGIT.search(match[0]) else "point") for match in SIGNS.finditer(text)
    ]


@lru_cache(maxsize=1024)
def lost_spans(text: str, target: str) -> bool:
    """Returns whether a translation lacks or doubles a copied span, a sign or a number of its source, or has a character
    that is not one."""
    if "\ufffd" in target and "\ufffd" not in text:
        return True
    signs = {*SIGN.findall(text), *_OF_PROGRAMS.findall(target)}
    if signs and any(target.count(sign) != text.count(sign) for sign in signs):
        return True
    for span in copied_spans(text):
        written = text[span.start : span.end]
        if target.count(written) != text.count(written):
            return True
    return not same_numbers(text, target)


def invents_signs(text: str, target: str) -> bool:
    """Returns whether a translation has a sign of programs, or a character that is not one, that its source lacks."""
    return any(sign not in text for sign in [*_OF_PROGRAMS.findall(target), *re.findall("\ufffd", target)])


def acronym_spans(text: str) -> list[ProtectedSpan]:
    """Returns the words in capitals of a text."""
    return [
        ProtectedSpan(*word.span(), "word") for word in WORD.finditer(text) if len(word[0]) > 1 and word[0].isupper()
    ]


def lost_numbers(text: str, target: str) -> bool:
    """Returns whether a translation lacks or doubles a number or a code of its source, or has another."""
    if not lost_spans(text, target):
        return lost_ordinal(text, target)
    for span in copied_spans(text):
        written = text[span.start : span.end]
        if (ROMAN.fullmatch(written) or any(map(str.isnumeric, written))) and target.count(written) != text.count(
            written
        ):
            return True
    return not same_numbers(text, target) or lost_ordinal(text, target)


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


def words_with(text: str, letters: Collection[str]) -> list[ProtectedSpan]:
    """Returns the words of a text that have one of the letters."""
    return [
        ProtectedSpan(*word.span(), "word")
        for word in WORD.finditer(text)
        if any(character in letters for character in word[0])
    ]


def do_not_translate_spans(text: str) -> list[Span]:
    """Returns all spans that every translation contains unchanged, but for numbers."""
    protected = [span for span in find_protected_spans(text) if span.role != "apostrophe"]
    found = without_overlaps([*protected, *copied_spans(text)])
    return [(span.start, span.end) for span in found]


def _raised_spans(word: re.Match[str]) -> list[ProtectedSpan]:
    """Returns a word with raised digits as a whole, or only the digits if they are the number of a note."""
    if RAISED.search(word[0]) is None:
        return []
    letters = "".join(filter(str.isalpha, RAISED.sub("", word[0])))
    if is_formula(letters):
        return [ProtectedSpan(*word.span(), "word" if letters else "number")]
    start = word.start()
    return [ProtectedSpan(start + one.start(), start + one.end(), "point") for one in RAISED.finditer(word[0])]


def may_hold_name(text: str) -> bool:
    """Returns False where `NAME` and `MEASURE` cannot match. This test is much faster than the search."""
    return "." in text[:-1] or "_" in text or DIGIT.search(text) is not None or LONG.search(text) is not None


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
