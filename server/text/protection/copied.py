"""Finds what a translation repeats as it is written: codes, names of files, emoji, formulas, measures, words of signs.

A model usually copies them. A translation is compared with its source (`server.text.protection.losses`), and only a
sentence in which one is lost or doubled is translated again with all of them masked.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from unicodedata import normalize

from model.tokenizer import Encoding
from server.text.languages import script_of, scripts_of
from server.text.numbers import find_numbers, is_formula
from server.text.protection.find import ProtectedSpan, find_protected_spans
from server.text.segmentation import Span

_EMOJI = (
    "\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u20e3\u200d\U000e0020-\U000e007f"
)
EMOJI = re.compile(rf"[{_EMOJI}]+(?:\+\w+)*")
"""Emoji and arrows, and signs of keys with those that are pressed with them: ⌘+C."""
WORD = re.compile(r"\w+")
DIGIT = re.compile(r"\d")
_SIGN = (
    r"[\\^`{|}~<>_*=#+\u00a2-\u00a7\u00a9\u00ac\u00ae-\u00b1\u00b6\u00d7\u00f7\u2020\u2021\u2030-\u2034\u203f\u2040\u20a0-\u20cf"
    "\u2100-\u214f\u2200-\u2211\u2213-\u22ff\u2500-\u25ff\u27c0-\u27ef\u2800-\u28ff\u2900-\u2aff]"
)
SIGN = re.compile(_SIGN)
"""Signs that are neither letters nor punctuation: currencies but for the dollar, mathematics, ©, §, those of programs."""
_NUMBER, _SPACE = r"\d(?:[\d.,:/'’–-]*\d)?", "[ \u00a0\u202f]?"
SIGNS = re.compile(rf"(?:(?<![\w.,:/'’–-]){_NUMBER}{_SPACE})?{_SIGN}+(?:{_SPACE}{_NUMBER}(?!\w))?")
RAISED = re.compile("[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u2188\u2460-\u24ff\U0001d400-\U0001d7ff]")
"""Superscripts, fractions, Roman numerals, letters in circles and of mathematics, which a vocabulary writes as ordinary
ones: 3½ as 31⁄2."""
MARK = re.compile(r"[\u0300-\u036f\u0483-\u0489\u20d0-\u20ff]")
"""Marks on letters. A vocabulary has letters with one mark, and spells the others in bytes."""
_UNITS = (
    "km/h m/s mph km cm mm nm µm μm kg mg µg ml cl hl kB KB MB GB TB KiB MiB GiB TiB Mbit/s kbit/s kW MW GW kWh MWh Hz kHz "
    "MHz GHz °C °F px em rem dB ms ns mAh kcal kJ hPa dpi fps"
)
MEASURE = re.compile(
    rf"(?<![\w.,:/+-])\d+(?:[.,]\d+)*[ \u00a0\u202f]?(?:{'|'.join(sorted(_UNITS.split(), key=len, reverse=True))})(?![\w/])"
)
"""Numbers with a unit."""

_TOKEN = re.compile(rf"{EMOJI.pattern}|(?:[^\s–—…“”„‟‘’‚«»‹›¿¡{_EMOJI}]|(?<=\d)[–’](?=\d))+")
"""Characters without a space, a quote or a dash between words among them."""
_AROUND = "\"'([{<.,;:!?)]}>*-"
_NAME = re.compile(
    r"(?<![\w@./\\-])(?:[\w-]+(?:\.[\w-]+)*\."
    r"(?:com|org|net|info|eu|uk|de|fr|es|ch|edu|gov|pdf|txt|docx?|xlsx?|pptx?|od[tsp]|csv|zip|png|jpe?g|gif|svg|html?|xml"
    r"|json|ya?ml|toml|ini|cfg|log|md|py|js|ts|css|php|sh|exe|mp[34])|\*\.\w+"
    r"|\w{40,}|[a-z_]\w+(?:\.[^\W\d]\w+){2,})(?!\w)"
)
"""report.pdf, example.org, *.log, java.util.Map; and strings of 40 characters and more, which are not words."""
_CODE = re.compile(
    r"\d.*[A-Za-zµμΩ°]|[A-Za-zµμΩ°].*\d|\d:|:\d|^\d+(?:(?:[.-]\d+){2,}|/\d+)$|\d\.\d+[/,]\d"
    r"|[\\^`{|}~<>]|[^\W_]_+[^\W_]|\w::\w|\w:\w+:\w|[^\W\d_]#|\w\+[\w+]|\w=|=\w|\(\)"
    rf"|{MARK.pattern}|(?<![A-Za-z])(?:[a-z]{{2,}}(?:[A-Z][a-z]+)+|(?:[A-Z][a-z]+){{3,}})(?![a-z])"
)
"""Letters and digits, ratios and times, versions, serials and dates; signs of programs, camelCase."""
_ORDINARY = re.compile(
    r"\d+(?:[.,:]\d+)?(?:st|nd|rd|th|er|re|e|ème|[ap]m|bn|h\d*|(?<=0)s|['’]s)?(?:-[^\W\d_][a-zß-ÿ]+)*|[a-z]+-\d+s"
    r"|\d+º[A-Z]?|\d{1,3}(?:[.,]\d{3})+[.,]?\d*|[A-Z]{0,3}[$€£¥][\d.,]+\w*|.*[^\W\d_]\([^\W\d_].*"
)
"""Words and numbers that are translated: 21st, 1990s, 6pm, US$5m."""
_WORDS_AFTER = re.compile(r"(?<!\.\d)(?:-[^\W\d_][a-zß-ÿ]+)+$")
"""Words that are translated after a code or a number: 20-year-old, COVID-19-Virus."""
_OPERAND, _OPERATOR = r"(?:[A-Za-z]|[+-]?[\w.,%]{0,20}\d[\w.,%]{0,20})", r"(?![/&%] )[=<>!+*/^|&~%±×÷≠≤≥≈∈∉⊂∪∩→]{1,3}"
_EXPRESSION = re.compile(rf"(?<![^\s(\[]){_OPERAND}(?: {_OPERATOR} {_OPERAND})+(?!\w)|(?<!\S)-(?: -)+(?!\S)|\.{{4,}}")
"""x != y, p = 0.03; - - of log lines."""
_PROGRAMS = frozenset(
    "git npm npx yarn pnpm pip pip3 docker kubectl apt apt-get brew cargo dotnet composer python python3 systemctl helm terraform"
    " ssh scp curl wget ls cd rm cp mv mkdir chmod chown grep tar sudo".split()
)
_STOP = "and|or|to|in|on|for|if|then|first|now|again|before|und|oder|um|im|auf|et|ou|pour|dans|y|o|para|en"
_ARGUMENT = (
    r"(?:(?:install|uninstall|add|remove|update|upgrade|run|build|up|down|start|stop|restart|status|init|clone|pull|push|commit"
    r"|checkout|merge|rebase|reset|stash|log|diff|exec|compose|test|publish|apply|get|describe|logs|enable|apt|apt-get|systemctl)"
    r"(?![\w-]|\.\w)|-{0,2}[\w.@~/:=+-]{0,60}[.@~/:=+\d-][\w.@~/:=+-]{0,60}(?<=[\w/])(?![\w/])"
    rf"|(?!(?:{_STOP})\b)[a-z][\w-]{{1,60}}(?=[.,;:!?)]|$| (?:{_STOP})\b))"
)
_COMMAND = re.compile(rf"(?<![\w./-])(?:{'|'.join(sorted(_PROGRAMS, reverse=True))})(?: {_ARGUMENT}){{1,9}}")
"""git pull --rebase."""
_LETTER = re.compile(r"[^\W_]")
_BRACKETS = {")": "(", "]": "[", ">": "<"}
_COLON = re.compile(r"\d:\d")
_QUOTE = re.compile(r"(?<!\w)'(?=\w)")
_CAPITALS = re.compile(r"[IVXLCDM]{2,}(?![\w-])")
ROMAN = re.compile(r"(?=[IVX]{2}$|...)M{0,3}(?:C[MD]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})")
_NO_ROMAN = re.compile(r"(?:[\w:-]|siglos? )$")
"""Before capitals that are no Roman numeral, or one that is translated: siglo XIX."""
_MAY_HOLD = re.compile(
    rf"{_SIGN[:-1]}\d{RAISED.pattern[1:-1]}{MARK.pattern[1:-1]}{_EMOJI}&A-Z.:(-]"
    r"(?:(?<=[^A-Z.:(-])|(?<=[a-z][A-Z])|(?<=[IVXLCDM]{2})|(?<=[.:])(?=[.:\w])|(?<=\()(?=\))|(?<=-)(?= -))|\S{40}"
)
"""Matches every text in which `copied_spans` may find something but a command. This test is much faster than the search."""


@lru_cache(maxsize=1024)
def copied_spans(text: str) -> Sequence[ProtectedSpan]:
    """Returns the emoji, names, codes, commands, formulas and measures of a text."""
    found: list[ProtectedSpan] = []
    if not _PROGRAMS.isdisjoint(text.split()):
        found += [ProtectedSpan(*match.span(), "word") for match in _COMMAND.finditer(text)]
    if _MAY_HOLD.search(text) is None:
        return found
    if SIGN.search(text) or "&" in text or "..." in text or "- -" in text:
        found += [ProtectedSpan(*match.span(), "word") for match in _EXPRESSION.finditer(text)]
    if DIGIT.search(text):
        found += [ProtectedSpan(*match.span(), "number") for match in MEASURE.finditer(text)]
    return without_overlaps([*found, *_codes(text), *_roman_numerals(text)])


def number_spans(text: str) -> list[ProtectedSpan]:
    """Returns the numbers of a text that are not part of a word."""
    return [ProtectedSpan(start, end, "number") for start, end in find_numbers(text)]


def sign_spans(text: str) -> list[ProtectedSpan]:
    """Returns the signs of a text, each with the numbers beside it: "25 €", "≤ 10", "2 × 3", "©"; and guillemets without a
    partner, which are arrows."""
    spans = [
        ProtectedSpan(*match.span(), "number" if DIGIT.search(match[0]) else "point") for match in SIGNS.finditer(text)
    ]
    if arrows_of(text):
        spans += [ProtectedSpan(*match.span(), "point") for match in re.finditer("[«»]", text)]
    return spans


def arrows_of(text: str) -> str:
    """Returns the guillemets if a text has them without a partner."""
    return "" if text.count("«") == text.count("»") else "«»"


def acronym_spans(text: str) -> list[ProtectedSpan]:
    """Returns the words in capitals of a text."""
    return [
        ProtectedSpan(*word.span(), "word") for word in WORD.finditer(text) if len(word[0]) > 1 and word[0].isupper()
    ]


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


def _codes(text: str) -> list[ProtectedSpan]:
    """Returns the codes of a text. Two in capitals after each other are one: SW1A 1AA."""
    found: list[ProtectedSpan] = []
    primes = "′″" + ("" if _QUOTE.search(text) else "'") + ('"' if text.count('"') % 2 else "")
    for token in _TOKEN.finditer(text):
        for span in _spans_of(token, primes) if _MAY_HOLD.search(token[0]) else ():
            last = found[-1] if found else span
            both = text[last.start : last.end] + text[span.start : span.end]
            if text[last.end : span.start] == " " and both.isalnum() and both.isupper():
                found[-1] = replace(last, end=span.end)
            else:
                found.append(span)
    return found


def _spans_of(token: re.Match[str], primes: str) -> Sequence[ProtectedSpan]:
    """Returns the codes of a token. After digits the `primes` stand for minutes, feet or inches."""
    start, word = token.start(), token[0]
    core = word.strip(_AROUND)
    if EMOJI.match(word) or not _LETTER.search(core):
        is_span = EMOJI.match(word) or (len(word) > 1 and SIGN.search(word))
        return [ProtectedSpan(*token.span(), "word" if core.isalnum() else "point")] if is_span else []
    first = word.index(core)
    last = first + len(core)
    while last < len(word) and _goes_on(word, first, last, primes):
        last += 1
    core = word[first:last]
    if RAISED.search(core):
        return _raised(start + first, core)
    bare = _WORDS_AFTER.sub("", core)
    code = normalize("NFC", bare)
    if bare[-1] in primes or (_CODE.search(code) and (not _ORDINARY.fullmatch(code) or _COLON.search(code))):
        return [ProtectedSpan(start + first, start + first + len(bare), "number" if bare[0].isdigit() else "word")]
    return [ProtectedSpan(start + name.start(), start + name.end(), "word") for name in _NAME.finditer(word)]


def _goes_on(word: str, first: int, last: int, primes: str) -> bool:
    """Returns whether the code at `first` contains the mark at `last`: a prime, or a bracket that closes one of its own."""
    opening = _BRACKETS.get(word[last])
    if opening:
        return word.count(opening, first, last) > word.count(word[last], first, last)
    return word.startswith("()", last) or (word[last] in primes and word[last - 1].isdigit())


def _raised(start: int, word: str) -> list[ProtectedSpan]:
    """Returns a word with raised digits as a whole, or only the digits if they are the number of a note."""
    letters = "".join(filter(str.isalpha, RAISED.sub("", word)))
    if is_formula(letters):
        return [ProtectedSpan(start, start + len(word), "word" if letters else "number")]
    return [ProtectedSpan(start + note.start(), start + note.end(), "point") for note in RAISED.finditer(word)]


def _roman_numerals(text: str) -> list[ProtectedSpan]:
    """Returns the Roman numerals of a text that is not in capitals."""
    return [
        ProtectedSpan(*match.span(), "word")
        for match in (_CAPITALS.finditer(text) if not text.isupper() else ())
        if ROMAN.fullmatch(match[0]) and not _NO_ROMAN.search(text[max(0, match.start() - 7) : match.start()])
    ]
