"""Writes the numbers of a translation with the decimal and thousands separators of its language."""

from __future__ import annotations

import re

from server.text.languages import primary_subtag

_NARROW_SPACE = "\u202f"
_POINT, _COMMA, _FRENCH = (".", ","), (",", "."), (",", _NARROW_SPACE)
SEPARATORS = {
    **dict.fromkeys("en zh ja ko th he".split(), _POINT),
    **dict.fromkeys("de es it nl pt da id tr el ro hr sl sr is".split(), _COMMA),
    **dict.fromkeys("fr ru uk pl cs sk sv nb no fi bg hu".split(), _FRENCH),
}
"""Decimal and thousands separator by language."""
_SPACES = " \u00a0\u202f"


def localize_numbers(source: str, target: str, source_language: str, target_language: str) -> str:
    """Returns a translation in which the numbers of the source, with separators of the source language, have those of
    the target language. Dates and versions are not changed, nor is the length of the text.
    Languages without a known format are left as they are."""
    known = SEPARATORS.get(primary_subtag(source_language)), SEPARATORS.get(primary_subtag(target_language))
    if known[0] is None or known[1] is None or known[0] == known[1]:
        return target
    for found in _pattern(*known[0]).finditer(source):
        written = re.compile(rf"(?<![\w.,:/-]){re.escape(found[0])}(?!\w|[.,:/-]\w)")
        target = written.sub(_formatted(found[0], known[0], known[1]), target)
    return target


def writes_decimal_point(language: str) -> bool:
    """Returns whether a language writes decimals with a point."""
    return SEPARATORS.get(primary_subtag(language)) == _POINT


def _pattern(decimal: str, group: str) -> re.Pattern[str]:
    """Returns a pattern that finds numbers with at least one separator."""
    groups = f"[{_SPACES}]" if group in _SPACES else re.escape(group)
    fraction = rf"{re.escape(decimal)}\d+"
    return re.compile(rf"(?<![\w.,:/-])(?:\d{{1,3}}(?:{groups}\d{{3}})+(?:{fraction})?|\d+{fraction})(?!\w|[.,:/-]\w)")


def _formatted(number: str, source: tuple[str, str], target: tuple[str, str]) -> str:
    """Returns the number with the separators of the target."""
    return "".join(
        character if character.isdigit() else target[0] if character == source[0] else target[1] for character in number
    )
