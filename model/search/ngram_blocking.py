"""Repetition in decoded tokens: n-grams that must not come again, and loops that a search is begun again to escape.

A model that is out of its depth can repeat itself until the length limit ends it. `no_repeat_ngram_size` forbids every
n-gram to come twice, as Hugging Face and CTranslate2 do; it also forbids what a text may well say twice. The loop guard
touches only what loops: when the same few tokens stand in a row again and again, and the source does not repeat itself like
that, the sentence is decoded once more with `no_repeat_ngram_size`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from model.search.options import DecodingOptions, Hypothesis

if TYPE_CHECKING:
    from model.search.base import Search

LONGEST_PERIOD = 32
_COPIES, _TOKENS = 3, 7
"""A loop is at least so many copies in a row that are together at least so many tokens: "1000000" is none."""
_GUARD_NGRAM = 3
"""no_repeat_ngram_size of the second try."""
_EVERY = 8
"""Steps between two looks at what a search has written so far."""


def banned(tokens: Sequence[int], size: int) -> set[int]:
    """Tokens that would complete an n-gram of `size` tokens that `tokens` already has."""
    if size == 0 or len(tokens) < size:
        return set()
    last = tuple(tokens[len(tokens) - size + 1 :])
    return {
        tokens[i + size - 1] for i in range(len(tokens) - size + 1) if tuple(tokens[i : i + size - 1]) == last
    }


def longest_loop(tokens: Sequence[int]) -> int:
    """Tokens in the longest stretch that is one block of tokens several times in a row; 0 where there is no loop."""
    size, longest = len(tokens), 0
    if size - len(set(tokens)) < _TOKENS - _TOKENS // _COPIES:  # so many have to be repeated
        return 0
    for period in range(1, min(LONGEST_PERIOD, size // _COPIES) + 1):
        run = 0
        for i in range(period, size):
            run = run + 1 if tokens[i] == tokens[i - period] else 0
            if run + period >= max(_TOKENS, _COPIES * period):
                longest = max(longest, run + period)
    return longest


def ends_in_loop(tokens: Sequence[int]) -> bool:
    """Whether the last tokens are a loop; a cheap look."""
    size = len(tokens)
    for period in range(1, min(LONGEST_PERIOD, size // _COPIES) + 1):
        reach = max(_TOKENS, _COPIES * period) - period
        if reach + period <= size and tokens[size - reach :] == tokens[size - reach - period : size - period]:
            return True
    return False


class GuardedSearch:
    """A search that begins again, once, when what it writes loops. `again` asks whoever runs it to start its row anew from
    the source before the next step; until then what further steps bring is not for it."""

    def __init__(
        self, make: Callable[[DecodingOptions], Search], options: DecodingOptions, source: Sequence[int]
    ) -> None:
        self._make, self._options, self._source = make, options, source
        self._inner = make(options)
        self._steps = 0
        self._guarding = True
        self.again = False
        self._show()

    def _show(self) -> None:
        """What the search within says, as plain attributes: they are read several times a step."""
        inner = self._inner
        self.width, self.candidates, self.trace = inner.width, inner.candidates, inner.trace
        self.tokens, self.forced, self.done = inner.tokens, inner.forced, inner.done

    @property
    def written(self) -> list[int]:
        return self._inner.written

    def unfinished(self) -> list[list[int]]:
        return self._inner.unfinished()

    def advance(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> list[int]:
        inner = self._inner
        parents = inner.advance(ids, scores)
        self._steps += 1
        self.tokens, self.forced, self.done, self.candidates = inner.tokens, inner.forced, inner.done, inner.candidates
        if self._guarding and (self.done or self._steps % _EVERY == 0) and self._loops():
            options = dataclasses.replace(self._options, no_repeat_ngram_size=_GUARD_NGRAM)
            self._inner, self._guarding, self.again = self._make(options), False, True
            self._show()
            return []
        return parents

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return self._inner.hypotheses()

    def _loops(self) -> bool:
        """Whether the best target, or everything that can still become it, repeats itself as the source does not."""
        if self._inner.done:
            written = self._inner.written or self._inner.hypotheses()[0].tokens
            return (found := longest_loop(written)) > 0 and found > 2 * longest_loop(self._source)
        rows = self._inner.unfinished()
        if not rows or not all(ends_in_loop(row) for row in rows):
            return False
        return min(map(longest_loop, rows)) > 2 * longest_loop(self._source)
