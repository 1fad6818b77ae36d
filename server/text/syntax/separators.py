"""Scans the separators of records (RFC 4180), and of lists on one line: rows of tables (GFM 4.10), menus, breadcrumbs, icons. No
grammar describes them."""

from __future__ import annotations

import re

from server.text.syntax.match import Match, Source, by_pattern

_FIELD = re.compile(r'[^"\n]*')
_FIRST = re.compile(
    r"""(?<![^\n,;|\t\[{])"(?=[^"\n]*"[,;|\t:] ?"[^"\n]*"(?:[,;|\t:](?: ?"[^"\n]*"|[^"\s][^"\n]*)?){0,50}+[\])},;\s]*$)""",
    re.MULTILINE,
)
_NEXT = re.compile(r"""\"(?:[,;|\t:](?: ?")?)?""")
docstring = by_pattern('"{3}', "break", "docstring")
ICONS = "\u2610-\u2612\u2713-\u2718\ue000-\uf8ff"
_AT_END = re.compile(r"(?<![^\n])[|¦‹›·•](?!\S)|(?<!\S)[|¦‹›·•](?![^\n])")
_BETWEEN = re.compile(
    r"(?:(?<=[^\W\d_]{3} )>|(?<=[^\W\d_]{2} )[›»]|(?<=[\u3040-\u9fff\uac00-\ud7af] )>)(?= [^\W\d_]{2})|(?<=\S )[|¦](?= \S)"
    r"|(?:(?<=[^\W\d_]{2} )|(?<=[)\]!?.…»”\"] ))[·•](?= [\"„“«(]?[^\W\d_]{2})"
)
_ICON = re.compile(rf"(?<!\S)[{ICONS}] ?(?=[A-ZÀ-Þ]\w)")


def separator(source: Source, at: int) -> Match | None:
    """Returns the separator at a sign, but for 4 · 10, a > b, and one before a small letter that is alone."""
    text = source.text
    if _AT_END.match(text, at) is None:
        if _BETWEEN.match(text, at) is None:
            return None
        is_joined = text[at + 2].islower() and (text[at] in ">›»" or not source.computed(_is_list))
        if is_joined or (text[at] == "»" and "«" in text):
            return None
    return Match(at, at + 1, "break", "separator")


def icon(source: Source, at: int) -> Match | None:
    """Returns one of several icons before items."""
    is_one = _ICON.match(source.text, at) and source.computed(_icons) > 1
    return Match(at, at + 1, "break", "separator") if is_one else None


def record(source: Source, at: int) -> Match | None:
    """Returns a quote at a field of a record (RFC 4180), with its delimiter and the quote of the next field: "a","b",5."""
    text, done = source.text, source.done
    field = _FIELD.match(text, done) if done == source.quoted else None
    is_end = field is not None and field.end() == at
    found = (_NEXT if is_end else _FIRST).match(text, at)
    if found is None:
        return None
    source.quoted = found.end()
    return Match(at - (not is_end and at > done and text[at - 1] in ",;|\t"), found.end(), "break", "record")


def _is_list(text: str) -> bool:
    return max(map(text.count, ("| ", "· ", "• "))) > 1


def _icons(text: str) -> int:
    return len(_ICON.findall(text))
