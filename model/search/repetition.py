"""Repeated tokens in a target: loops, and the tokens that n-gram blocking excludes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import eq

LONGEST_PERIOD = 32
_COPIES, _TOKENS = 3, 7
"""A loop has at least _COPIES copies in a row and _TOKENS tokens: "1000000" is not a loop."""


def has_loop(target: Sequence[int], source: Sequence[int]) -> bool:
    """Returns whether a target has a loop that the source does not explain."""
    loop = longest_loop(target)
    return loop > 0 and loop > 2 * longest_loop(source)


def longest_loop(tokens: Sequence[int], longest_period: int = LONGEST_PERIOD) -> int:
    """Returns the length of the longest stretch of tokens that repeats one block, of at most
    `longest_period` tokens, several times in a row; 0 for no loop."""
    # fewer repeated tokens than any loop has
    if len(tokens) - len(set(tokens)) < _TOKENS - _TOKENS // _COPIES:
        return 0
    lengths = [
        length
        for period, _, length in repeated_blocks(tokens, longest_period)
        if length >= max(_TOKENS, _COPIES * period)
    ]
    return max(lengths, default=0)


def repeated_blocks(items: Sequence[object], longest_period: int) -> Iterator[tuple[int, int, int]]:
    """Yields the stretches that repeat one block of at most `longest_period` items: size of the
    block, first item and length of the stretch. The last copy may be partial."""
    for period in range(1, min(longest_period, len(items) // 2) + 1):
        start = 0
        for same, run in groupby(map(eq, items[period:], items)):
            size = len(list(run))
            if same:
                yield period, start, period + size
            start += size


def ends_in_loop(tokens: Sequence[int]) -> bool:
    """Returns whether the last tokens are a loop; cheaper than `longest_loop`."""
    size = len(tokens)
    for period in range(1, min(LONGEST_PERIOD, size // _COPIES) + 1):
        if tokens[-1] == tokens[-1 - period]:
            reach = max(_TOKENS, _COPIES * period) - period
            if (
                reach + period <= size
                and tokens[size - reach :] == tokens[size - reach - period : size - period]
            ):
                return True
    return False


def blocked_tokens(tokens: Sequence[int], size: int) -> set[int]:
    """Returns the tokens that would complete an n-gram of `size` tokens that `tokens` already
    contains (`no_repeat_ngram_size`, as in Hugging Face and CTranslate2)."""
    if size == 0 or len(tokens) < size:
        return set()
    last = tokens[len(tokens) - size + 1 :]
    if not last:
        return set(tokens)
    return {
        tokens[place + size - 1]
        for place, token in enumerate(tokens[size - 2 : -1])
        if token == last[-1] and tokens[place : place + size - 1] == last
    }
