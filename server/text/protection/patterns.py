"""Patterns of the parts of a text that are not words: variables of programs, markup, addresses, code, formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, cast

from server.text.languages import table
from server.text.protection.messages import PLACEABLE

Role = Literal["word", "number", "point", "open", "close", "break", "icu", "apostrophe"]

ROLES: dict[str, Role] = {}
"""Role of each kind, in the order in which they are tried."""


def patterns(name: str) -> dict[str, re.Pattern[str]]:
    """Returns the regular expressions of a table of names and expressions."""
    parts: dict[str, str] = {}
    for row in table(name):
        key, _, pattern = row.partition(" ")
        parts[key] = _with_parts(pattern, parts)
    return {key: re.compile(pattern) for key, pattern in parts.items()}


def _with_parts(pattern: str, parts: Mapping[str, str]) -> str:
    """Returns an expression with the parts that it names in guillemets."""
    return re.sub("‹(\\w+)›", lambda part: parts[part[1]], pattern)


def _kinds() -> Iterator[str]:
    """Yields a group for each kind, with its name and pattern (`tables/protected_spans.txt`)."""
    parts = {"PLACEABLE": PLACEABLE}
    for row in table("protected_spans"):
        name, role, pattern = row.split(" ", 2)
        pattern = _with_parts(pattern, parts)
        if role == "part":
            parts[name] = pattern
        else:
            ROLES[name] = cast(Role, role)
            yield f"(?P<{name}>{pattern})"


KIND = re.compile("|".join(_kinds()), re.IGNORECASE | re.DOTALL)
SIGN = re.compile(r"[%{$<&`\\#\[\]*~/@:;=_'.!|¦›·•>]")
"""The characters with which `KIND` begins."""
PATH = re.compile(
    r"(?<!\w)(?:[a-z]:|\\\\[\w.-]+)\\(?:[\w.$-]+\\)*[\w.$-]*\w|(?<![\w./-])(?:[\w.-]+/)+[\w-]+\.[a-z]\w{0,4}(?!\w|\.\w)",
    re.I,
)
"""Paths that begin with a word."""
MAY_HOLD = re.compile(r"[%{}$<&`\\#\[*~/@:;=_|¦›·•>]")
"""Matches every text in which `KIND` or `PATH` can match. This test is much faster than the search."""
INLINE_TAGS = frozenset("a b big del em font i ins mark s small span strike strong sub sup u p div li ul ol".split())
"""Tags of HTML that, without their partner, are no word of the sentence."""
