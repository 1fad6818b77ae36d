"""Finds the parts of lines that are not text: dumps of bytes (xxd, hexdump -C), timings of cues
(WebVTT, SubRip, ASS), definitions and badges of Markdown, keys (gettext, properties, .strings,
YAML, JSON, INI, vCard), fields of tables (RFC 4180), and statements of SQL (ISO 9075-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from server.text.spans import Span
from server.text.syntax.match import Match

_SIGN = re.compile(r"[:=/\"\[\\\n]")
_GROUP = r"[\da-f]{2}(?:[\da-f]{2}|[\da-f]{6})?(?![^\s-])"
_LINE = re.compile(
    rf"^[ \t]*+(?:"
    rf"(?P<dump>(?:0x)?[\da-f]{{4,16}}:?[ \t]++{_GROUP}(?:[ -]{{1,2}}{_GROUP})++(?:(?:[ \t]{{2}}|[ "
    rf"\t]*\|).{{0,100}})?$)"
    r"|(?P<cue>(?:\d+:)?\d\d:\d\d[.,]\d{3}[ \t]+-->.*|WEBVTT\b.*|(?:Dialogue|Comment): "
    r"?(?:[^,\n]*,){9})"
    r"|(?P<mark>(?:>[ \t]*)*\[!\w{2,20}\][+-]?(?!\S)|:{3}.*|\\item\b|\[\^[\w-]{1,50}\]:"
    r"|\[[^\]\n]{1,99}\]:[ \t]+(?:[a-z]{2,9}:|[.#/<])\S+(?:[ \t]+[\"'(].*)?$)"
    r"|(?P<key>msg[a-z_]{2,9}(?:\[\d\])?[ \t]+\"|([\"'])"
    r"(?:[^\"'\n=]{1,99}\5 *=>? *[\"']?|[^\"'\n= ]{1,99}\5 *: "
    r"*(?:[\"']|(?=[-\d\[{]|true|false|null)))"
    r"|(?=[a-z_])(?:(?=[\w-]{0,99}[._])[\w.-]{1,99}+[ \t]*=[ \t]*+\"?(?![\s=>])"
    r"|[\w.-]{3,99}+=\"?(?=[^\W\d_]{2,}[ !?.,]|[¿¡])|(?-i:[a-z])\w{2,99}+ += +(?=(?-i:[A-ZÀ-Þ])\w* "
    r"))"
    r"|(?-i:To|Cc|Bcc):(?= .*@)"
    r"|(?:BEGIN|END):\w+$|(?-i:[A-Z][A-Z-]{1,30})(?:;[\w-]+=[^:;\n]{1,99})*:(?=\w(?-i:[a-zà-ÿ. "
    r"])|(?<=\w{3}:)[^\s:])"
    r"|\[\d\d?:\d\d(?::\d\d)?\] ?<\S{1,30}>|(?-i:[+-](?=[A-ZÀ-Þ][a-zà-ÿ'’]+[ ,.!?]))))",
    re.MULTILINE | re.IGNORECASE,
)
_BYTES = re.compile(
    r"(?<![\w-])(?:(?:[\da-f]{2}){1,2}  ?){3,}(?:[\da-f]{2}){1,2}(?![\w-])", re.IGNORECASE
)
_NAME = r"[ \t]*+[a-z][a-z\d_-]{0,40}:(?= |$)(?: +[\"'])?"
_PAIRS = re.compile(rf"(?:(?:{_NAME}.*|[ \t]*+(?:[#-] .*)?)(?:\n|$))++", re.MULTILINE)
_BADGE = r"\[?!\[|\](?:\([^()\s]*\)\]?)+"
_BADGES = re.compile(rf"^(?: *+(?:{_BADGE})[^\[\]\n]*+(?:{_BADGE})){{2,}} *$", re.MULTILINE)
_CELLS = [
    re.compile(rf"\"[^\"\n]*\"|\n|(?:(?<![\s\d]){sign}|(?<=\d){sign}(?!{no}))(?=\S)")
    for sign, no in ((",", r"\d"), (";", r"\s"))
]
_QUOTED = re.compile(r".*([\"'][;,]?[ \t]*)$", re.MULTILINE)
_FIELD = r"(?:\"[^\"\n]*+\"|[^\s\"][^\",;|\t\n]*+)"
_RECORD = re.compile(
    rf"^[ \t\[{{]*+{_FIELD}(?:(?:(?<=\")[,;|\t:] ?|[,;|\t]){_FIELD}?)++[\]}}),;\s]*$", re.MULTILINE
)
_EDGE = re.compile(r"^[ \t\[{]*\"|\"[,;|\t:] ?\"?|[,;|\t:]\"|\"[\]}),;\s]*$", re.MULTILINE)
_LABEL = r"[A-ZÀ-Þ][a-zß-ÿ’'-]+"
_LABELS = re.compile(rf"^{_LABEL}(?: ?/ ?{_LABEL}){{1,9}}$", re.MULTILINE)
"""Labels without spaces: Yes/No."""
_GROUPED = r"\((?:[^()\n]|\([^()\n]*\)){0,500}+\)"
_TERM = rf"(?:'[^'\n]*+'|[\w*$?%@\"`](?:[\w.*$:?%@\"`]*[\w*?\"`])?|{_GROUPED})"
_STATEMENT = re.compile(
    r"(?<!\w)(?:SELECT|INSERT INTO|UPDATE|DELETE|(?:CREATE|ALTER|DROP) "
    rf"TABLE)\b(?:\s+[A-Z]{{2,}}\b)*+\s*{_TERM}"
    rf"(?:(?:\s+[A-Z]{{2,}}\b)++(?:(?<!SC|LL)\s*{_TERM})?+|\s*(?:[<>!]?=|<>|[<>,])\s*{_TERM}|\s*{_GROUPED}|\s+[a-z]\w?(?=\s+[A-Z]{{2}}|,))*+;?"
    r"(?:[ \t]*--(?=\s))?"
)


def matches(text: str) -> Iterator[Match]:
    """Yields the parts of lines that are not text. Numbers alone are no dump."""
    may_state = "FROM" in text or "INTO" in text or "SET" in text or "TABLE" in text
    if text[:1].isupper() and text[1:4].islower() and not may_state and not _SIGN.search(text):
        return
    keys: Iterator[re.Match[str]] = _LINE.finditer(text)
    if _PAIRS.fullmatch(text):
        names = [
            each
            for each in re.finditer(rf"^{_NAME}", text, re.MULTILINE)
            if "\n" in text or text[each.end() :].lstrip()[:1].isupper()
        ]
        keys = chain(keys, names)
    for found in keys:
        if found.lastgroup != "dump":
            yield Match(*found.span(), "break", found.lastgroup or "key")
            last = _QUOTED.match(text, found.end()) if found[0][-1] in "\"'" else None
            if last:
                yield Match(*last.span(1), "break", "key")
        elif not "".join(found[0].split()).isdigit():
            yield Match(*found.span(), "word", "dump")
    for record in _RECORD.finditer(text) if '"' in text else ():
        if re.search(r"\"[,;|\t:] ?\"", record[0]):
            yield from _breaks(_EDGE, text, record.span(), "record")
    for line in _BADGES.finditer(text) if "![" in text else ():
        yield from _breaks(re.compile(_BADGE), text, line.span(), "badge")
    for labels in _LABELS.finditer(text) if "/" in text else ():
        yield from _breaks(re.compile("/"), text, labels.span(), "separator")
    if "\n" in text:
        yield from _cells(text)
    if may_state:
        for found in _STATEMENT.finditer(text):
            is_sure = re.search(r"[*;=(]|\s(?:BY|LIMIT)\b", found[0]) or (
                found[0] == text.strip() and not found[0].isupper()
            )
            if is_sure and re.search(r"\s(?:FROM|INTO|SET|TABLE)\b", found[0]):
                yield Match(*found.span(), "word", "statement")


def _breaks(pattern: re.Pattern[str], text: str, within: Span, kind: str) -> list[Match]:
    return [Match(*each.span(), "break", kind) for each in pattern.finditer(text, *within)]


def _cells(text: str) -> Iterator[Match]:
    """Yields the separators and quotes of a table, whose rows have the same number of separators. Two
    rows have at least two each."""
    for cell in _CELLS:
        rows, quotes = [list[int]()], list[int]()
        for found in cell.finditer(text.rstrip()):
            if found[0] == "\n":
                rows.append([])
            elif len(found[0]) > 1:
                quotes += found.start(), found.end() - 1
            else:
                rows[-1].append(found.start())
        if len(rows) * len(rows[0]) > 2 and len({*map(len, rows)}) == 1 < len(rows):
            yield from [Match(at, at + 1, "break", "cell") for at in (*chain(*rows), *quotes)]


def sequences(text: str) -> Iterator[Match]:
    """Yields dumps of bytes within a sentence: de ad 00 ff."""
    for found in _BYTES.finditer(text):
        groups = {*found[0].split()}
        if (
            any(not each.isdigit() and not each.isalpha() for each in groups)
            or sum(map(str.isalpha, groups)) > 2
        ):
            yield Match(*found.span(), "word", "code")
