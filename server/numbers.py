"""Numbers in a text, and which of them a translation lacks.

A number may be written in another way (1,234.5 and 1.234,5), as a word when it is small ("drei"), and 5 p.m. may become 17.
What matters is that its digits are there.
"""

from __future__ import annotations

import re
from collections import Counter

from server.segmentation import Span

# Digits with marks between them (dates and times too), alone or with a currency or percent sign; not those of "A4", "21st"
# or "COVID-19".
NUMBER = re.compile(
    r"(?<![\w.,:/\-])[$€£¥+−-]?"
    r"(?:\d{1,3}(?:[\u00a0\u202f ]\d{3})+(?:[.,]\d+)?|\d(?:[\d.,:/'’–-]*\d)?)"
    r"(?:\s?[%‰°€])?(?!\w|[.,:/'’-]\w)"
)
_DIGITS = re.compile(r"\d(?:[.,'’]?\d)*")
_GROUPS = re.compile(r"(?<![\d.,])\d{1,3}(?:[\u00a0\u202f ]\d{3})+(?!\d)")
_OFTEN_A_WORD = 12
"""Numbers up to this are often written as words."""


def numbers(text: str) -> list[Span]:
    """Where a text has numbers that stand for themselves."""
    return [found.span() for found in NUMBER.finditer(text)]


def values(text: str) -> Counter[str]:
    """The numbers of a text, wherever they stand, as digits alone: how often each is there."""
    joined = _GROUPS.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    return Counter(re.sub(r"\D", "", found[0]).lstrip("0") or "0" for found in _DIGITS.finditer(joined))


def lacks_numbers(source: str, target: str) -> bool:
    """Whether the target lacks a number of the source. One that is small may be a word, unless the target has a number
    that the source does not have."""
    wanted = values("; ".join(source[start:end] for start, end in numbers(source)))
    if not wanted:
        return False
    found = values(target)
    missing = wanted - found
    invented = found - values(source)
    return any(int(value[:9]) > _OFTEN_A_WORD or invented for value in missing)
