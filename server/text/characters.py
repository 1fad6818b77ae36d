"""The named classes of characters that several modules look for."""

import re
from collections.abc import Callable

WORD = re.compile(r"\w+")
LETTERS = re.compile(r"[^\W\d_]+")
SPACES = " \u00a0\u202f"
UNSPACED = "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts without spaces between words."""
NO_SPACES = re.compile(f"[{UNSPACED}]")


def grown(
    text: str,
    start: int,
    end: int,
    belongs: Callable[[str], bool],
    low: int = 0,
    high: int | None = None,
) -> tuple[int, int]:
    """Returns a span with the characters before and after it, in [low, high), that belong to it."""
    low, high = max(0, low), len(text) if high is None else min(high, len(text))
    while start > low and belongs(text[start - 1]):
        start -= 1
    while end < high and belongs(text[end]):
        end += 1
    return start, end
