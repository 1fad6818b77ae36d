"""Finds the codes of a text: what mixes letters and digits, ratios, versions, serials, Roman numerals."""

from __future__ import annotations

import re

from server.text.protection.find import ProtectedSpan
from server.text.protection.patterns import Role

_MORE = "§№°µμΩ²³½¼¾×±"
_RUN = re.compile(rf"(?<![\w!-~{_MORE}])[!-/:-^`-~{_MORE}]*+[\d_][!-~{_MORE}]*(?!\w)")
"""Characters of codes with a digit or an underscore, without the dashes between words."""
_AROUND = "\"'([{<.,;:!?)]}>*-"
_CODE = re.compile(r"(?=.*\d)(?:.*[A-Za-zµμΩ°]|.*\d:|.*:\d|\d+(?:[.-]\d+){2,}$|.*\d\.\d+/)|\d+/\d+$|.*[^\W_]_+[^\W_]")
"""Letters and digits, ratios and times, versions, serials and dates."""
_CAPITALS = re.compile(r"[IVXLCDM]{2,}(?![\w-])")
ROMAN = re.compile(r"(?=[IVX]{2}$|...)M{0,3}(?:C[MD]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})")
_NO_ROMAN = re.compile(r"(?:[\w:-]|siglos? )$")
"""Before capitals that are no Roman numeral, or one that is translated: siglo XIX."""
_ORDINARY = re.compile(
    r"\d+(?:[.,:]\d+)?(?:(?:st|nd|rd|th|er|re|e|ème|[ap]m|bn|h\d*|(?<=0)s|['’]s)(?:-[A-Za-z][a-z]+)*|(?:-[A-Za-z][a-z]+)+)"
    r"|[a-z]+-\d+s"
    r"|\d{1,3}(?:[.,]\d{3})+[.,]?\d*|[A-Z]{0,3}[$€£¥].*|.*\(.*",
)
"""Words and numbers that are translated: 21st, 1990s, 20-year-old, 6pm, US$5m."""
_GROUPS = re.compile(r"(?<![\w:])\w{1,20}(?::{1,2}\w{1,20}){2,20}(?![\w:])")
"""Groups with colons between them: AA:BB:CC:DD:EE:FF."""
_COLON = re.compile(r"\d:\d")


def code_spans(text: str) -> list[ProtectedSpan]:
    """Returns the codes of a text: what mixes letters and digits (SW1A, 100m), ratios, versions, serials."""
    found: list[ProtectedSpan] = []
    for run in _RUN.finditer(text):
        code = run[0].strip(_AROUND)
        if not _CODE.match(code) or (_ORDINARY.fullmatch(code) and not _COLON.search(code)):
            continue
        start = run.start() + run[0].index(code)
        end = start + len(code)
        last = found[-1] if found else None
        if last and text[last.end : start] == " " and code.isupper() and text[last.start : last.end].isupper():
            start = found.pop().start  # SW1A 1AA
        role: Role = "number" if code[0].isdigit() else "word"
        found.append(ProtectedSpan(start, end, role))
    return found


def letter_code_spans(text: str) -> list[ProtectedSpan]:
    """Returns the codes of a text that have no digits: groups with colons, and Roman numerals in sentences that are not in
    capitals."""
    found = [ProtectedSpan(*match.span(), "word") for match in _GROUPS.finditer(text)] if ":" in text else []
    for match in _CAPITALS.finditer(text) if not text.isupper() else ():
        before = text[max(0, match.start() - 7) : match.start()]
        if ROMAN.fullmatch(match[0]) and not _NO_ROMAN.search(before):
            found.append(ProtectedSpan(*match.span(), "word"))
    return found
