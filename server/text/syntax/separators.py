"""Scans the separators of lists on one line: rows of tables (GFM 4.10), menus, breadcrumbs,
icons."""

from __future__ import annotations

import re

from server.text.syntax.match import Match, Source

ICONS = "\u2610-\u2612\u2713-\u2718\ue000-\uf8ff"
_AT_END = re.compile(r"(?<![^\n])[|¦‹›·•](?!\S)|(?<!\S)[|¦‹›·•](?![^\n])")
_BETWEEN = re.compile(
    r"(?:(?<=[^\W\d_]{2} )|(?<=» ))[>›»«](?= (?:[^\W\d_]{3}|[A-Z]{2}))|(?<= )[|¦](?= )"
    r"|(?:(?<=[^\W\d_]{2} )|(?<=[)\]!?.…»”\"] ))[·•](?= [\"„“«(]?[^\W\d_]{2})"
)
_ICON = re.compile(rf"(?<!\S)[{ICONS}] ?(?=[A-ZÀ-Þ]\w)")


def separator(source: Source, at: int) -> Match | None:
    """Returns the separator at a sign, but for 4 · 10, a > b, and one before a small letter that is
    alone."""
    text = source.text
    if _AT_END.match(text, at) is None:
        if _BETWEEN.match(text, at) is None:
            return None
        is_joined = text[at + 2 : at + 3].islower() and (
            text[at] in ">›»" or not source.computed(_is_list)
        )
        if is_joined or (text[at] in "«»" and source.computed(_is_quoted)):
            return None
    return Match(at, at + 1, "break", "separator")


def icon(source: Source, at: int) -> Match | None:
    """Returns one of several icons before items."""
    is_one = _ICON.match(source.text, at) and len(source.computed(_ICON.findall)) > 1
    return Match(at, at + 1, "break", "separator") if is_one else None


def _is_quoted(text: str) -> bool:
    return 0 <= text.find("«") < text.rfind("»")


def _is_list(text: str) -> bool:
    return max(map(text.count, ("| ", "· ", "• "))) > 1
