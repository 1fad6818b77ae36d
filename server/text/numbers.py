"""Numbers in a text, and which of them a translation lacks.

A number may be written in another way (1,234.5 and 1.234,5), as a word when it is small ("drei"), and 5 p.m. may become 17.
What matters is that its value is there.
"""

from __future__ import annotations

import re
from collections import Counter

from server.text.segmentation import Span

# Digits with marks between them (dates and times too), alone or with a currency or percent sign; not those of "A4", "21st"
# or "COVID-19".
NUMBER = re.compile(
    r"(?<![\w.,:/\-])[$€£¥+−-]?"
    r"(?:\d{1,3}(?:[\u00a0\u202f ]\d{3})+(?:[.,]\d+)?|\d(?:[\d.,:/'’–-]*\d)?)"
    r"(?:\s?[%‰°€])?(?!\w|[.,:/'’-]\w)"
)
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d(?:[.,'’]?\d)*")
_MARKS = re.compile(r"[.,'’]")
_GROUPS = re.compile(r"(?<![\d.,])\d{1,3}(?:[\u00a0\u202f ]\d{3})+(?!\d)")
_OFTEN_A_WORD = 12
"""Numbers up to this are often written as words."""


def find_numbers(text: str) -> list[Span]:
    """Where a text has numbers that stand for themselves."""
    return [found.span() for found in NUMBER.finditer(text)] if _DIGIT.search(text) else []


def number_values(text: str) -> Counter[str]:
    """The numbers of a text, wherever they stand, as plain decimals: how often each is there."""
    joined = _GROUPS.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    return Counter(_plain(found[0]) for found in _DIGITS.finditer(joined))


def lacks_numbers(source: str, target: str) -> bool:
    """Whether the target lacks a number of the source. One that is small may be a word, unless the target has a number
    that the source does not have."""
    spans = find_numbers(source)
    if not spans:
        return False
    given, found = number_values(source), number_values(target)
    missing = (number_values("; ".join(source[start:end] for start, end in spans)) & given) - found
    invented = found - given
    return any(invented or not (value.isdigit() and len(value) < 3 and int(value) <= _OFTEN_A_WORD) for value in missing)


def _plain(number: str) -> str:
    """Digits without marks between thousands, with a point before what is no group of three: 1,234.5 and 1.234,5 are equal."""
    groups = _MARKS.split(number)
    if all(len(group) == 3 for group in groups[1:]):
        plain = "".join(groups)
    elif all(len(group) == 3 for group in groups[1:-1]):
        plain = "".join(groups[:-1]) + "." + groups[-1]
    else:
        plain = ".".join(groups)
    return plain.lstrip("0") or "0"
