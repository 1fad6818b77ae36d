"""Finds the lines and parts of lines that are no text: dumps of bytes (xxd, hexdump -C), timings of cues (WebVTT, SubRip, ASS),
definitions of Markdown, keys of resource files (gettext, properties, .strings), records of tables (RFC 4180), and statements of
SQL (ISO 9075-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from server.text.syntax.match import Match

_GROUP = r"[\da-f]{2}(?:[\da-f]{2}|[\da-f]{6})?(?![^\s-])"
_LINE = re.compile(
    rf"^[ \t]*+(?:"
    rf"(?P<dump>(?:0x)?[\da-f]{{4,16}}:?[ \t]++{_GROUP}(?:[ -]{{1,2}}{_GROUP})++(?:(?:[ \t]{{2}}|[ \t]*\|).{{0,100}})?$)"
    r"|(?P<cue>(?:\d+:)?\d\d:\d\d[.,]\d{3}[ \t]+-->.*|WEBVTT\b.*|(?:Dialogue|Comment): ?(?:[^,\n]*,){9})"
    r"|(?P<mark>(?:>[ \t]*)*\[!\w{2,20}\][+-]?(?!\S)|:{3}.*|\\item\b|\[\^[\w-]{1,50}\]:"
    r"|\[[^\]\n]{1,99}\]:[ \t]+(?:[a-z]{2,9}:|[.#/<])\S+(?:[ \t]+[\"'(].*)?$)"
    r"|(?P<key>msg[a-z_]{2,9}(?:\[\d\])?[ \t]+\"|\"[^\"\n=]{1,99}\"[ \t]*=[ \t]*\""
    r"|(?=[\w-]{0,99}[._])[\w.-]{1,99}+[ \t]*=[ \t]*+\"?(?![\s=>])))",
    re.MULTILINE | re.IGNORECASE,
)
_BYTES = re.compile(r"(?<![\w-])(?:(?:[\da-f]{2}){1,2}  ?){3,}(?:[\da-f]{2}){1,2}(?![\w-])", re.IGNORECASE)
_QUOTED = re.compile(r".*(\"[;,]?[ \t]*)$", re.MULTILINE)
_FIELD = r"(?:\"[^\"\n]*+\"|[^\s\"][^\",;|\t\n]*+)"
_RECORD = re.compile(rf"^[ \t\[{{]*+{_FIELD}(?:(?:(?<=\")[,;|\t:] ?|[,;|\t]){_FIELD}?)++[\]}}),;\s]*$", re.MULTILINE)
_EDGE = re.compile(r"^[ \t\[{]*\"|\"[,;|\t:] ?\"?|[,;|\t:]\"|\"[\]}),;\s]*$", re.MULTILINE)
_GROUPED = r"\((?:[^()\n]|\([^()\n]*\)){0,500}+\)"
_TERM = rf"(?:'[^'\n]*+'|[\w*$?%@\"`](?:[\w.*$:?%@\"`]*[\w*?\"`])?|{_GROUPED})"
_STATEMENT = re.compile(
    rf"(?<!\w)(?:SELECT|INSERT INTO|UPDATE|DELETE|(?:CREATE|ALTER|DROP) TABLE)\b(?:\s+[A-Z]{{2,}}\b)*+\s*{_TERM}"
    rf"(?:(?:\s+[A-Z]{{2,}}\b)++(?:(?<!SC|LL)\s*{_TERM})?+|\s*(?:[<>!]?=|<>|[<>,])\s*{_TERM}|\s*{_GROUPED}|\s+[a-z]\w?(?=\s+[A-Z]{{2}}|,))*+;?"
)


def matches(text: str) -> Iterator[Match]:
    """Yields what the lines of a text have that is none. Numbers alone are no dump."""
    for found in _LINE.finditer(text) if "\n" in text else filter(None, (_LINE.match(text),)):
        if not found["dump"]:
            yield Match(*found.span(), "break", found.lastgroup or "")
            last = _QUOTED.match(text, found.end()) if found[0][-1] == '"' else None
            if last:
                yield Match(*last.span(1), "break", "key")
        elif not "".join(found[0].split()).isdigit():
            yield Match(*found.span(), "word", "dump")
    for record in _RECORD.finditer(text) if '"' in text else ():
        if re.search(r"\"[,;|\t:] ?\"", record[0]):
            yield from [Match(*edge.span(), "break", "record") for edge in _EDGE.finditer(text, *record.span())]
    if "FROM" in text or "INTO" in text or "SET" in text or "TABLE" in text:
        for found in _STATEMENT.finditer(text):
            is_sure = re.search(r"[*;=(]|\s(?:BY|LIMIT)\b", found[0]) or (
                found[0] == text.strip() and not found[0].isupper()
            )
            if is_sure and re.search(r"\s(?:FROM|INTO|SET|TABLE)\b", found[0]):
                yield Match(*found.span(), "word", "statement")


def sequences(text: str) -> Iterator[Match]:
    """Yields bytes within words, de ad 00 ff."""
    for found in _BYTES.finditer(text):
        groups = {*found[0].split()}
        if any(not each.isdigit() and not each.isalpha() for each in groups) or sum(map(str.isalpha, groups)) > 2:
            yield Match(*found.span(), "word", "code")
