"""Detects targets that loop, and decodes them again with n-gram blocking.

A model can repeat itself until the length limit ends the target. Blocking n-grams everywhere would also forbid
repetitions that are correct. The loop guard changes only targets in which the same few tokens are repeated several
times in a row while the source has no such repetition: they are decoded again with `no_repeat_ngram_size`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from model.search.base import ScoreRows, Search, TokenRows
from model.search.options import DecodingOptions, Hypothesis

LONGEST_PERIOD = 32
_COPIES, _TOKENS = 3, 7
"""A loop has at least this many copies in a row, and this many tokens in all: "1000000" is not a loop."""
_NGRAM = 3
"""`no_repeat_ngram_size` of the second search."""
_CHECK_INTERVAL = 8
"""Steps between two checks of an unfinished target."""


def longest_loop(tokens: Sequence[int], longest_period: int = LONGEST_PERIOD) -> int:
    """Returns the length of the longest stretch of tokens that repeats one block, of at most `longest_period` tokens,
    several times in a row; 0 for no loop."""
    size, longest = len(tokens), 0
    if size - len(set(tokens)) < _TOKENS - _TOKENS // _COPIES:  # fewer repeated tokens than any loop has
        return 0
    for period in range(1, min(longest_period, size // _COPIES) + 1):
        run = 0
        for i in range(period, size):
            run = run + 1 if tokens[i] == tokens[i - period] else 0
            if run + period >= max(_TOKENS, _COPIES * period):
                longest = max(longest, run + period)
    return longest


def ends_in_loop(tokens: Sequence[int]) -> bool:
    """Returns whether the last tokens are a loop; cheaper than `longest_loop`."""
    size = len(tokens)
    for period in range(1, min(LONGEST_PERIOD, size // _COPIES) + 1):
        reach = max(_TOKENS, _COPIES * period) - period
        if reach + period <= size and tokens[size - reach :] == tokens[size - reach - period : size - period]:
            return True
    return False


class GuardedSearch:
    """A search that restarts once, with n-gram blocking, when its target loops.

    While `restart` is set, the caller starts the row again from the source and discards the outputs of further steps.
    """

    def __init__(
        self, make: Callable[[DecodingOptions], Search], options: DecodingOptions, source: Sequence[int]
    ) -> None:
        self._make, self._options, self._source = make, options, source
        self._inner = make(options)
        self._steps = 0
        self._may_restart = True
        self.restart = False
        self._copy_state()

    def _copy_state(self) -> None:
        """Copies the inner search's state into plain attributes, which are read several times a step."""
        inner = self._inner
        self.width, self.candidates, self.trace = inner.width, inner.candidates, inner.trace
        self.tokens, self.forced, self.done = inner.tokens, inner.forced, inner.done

    @property
    def known(self) -> Sequence[int]:
        return self._inner.known

    @property
    def generated(self) -> list[int]:
        return self._inner.generated

    def unfinished(self) -> list[list[int]]:
        return self._inner.unfinished()

    def advance(self, ids: TokenRows, scores: ScoreRows) -> list[int]:
        inner = self._inner
        parents = inner.advance(ids, scores)
        self._steps += 1
        self.tokens, self.forced, self.done, self.candidates = inner.tokens, inner.forced, inner.done, inner.candidates
        if self._may_restart and (self.done or self._steps % _CHECK_INTERVAL == 0) and self._loops():
            options = dataclasses.replace(self._options, no_repeat_ngram_size=_NGRAM)
            self._inner, self._may_restart, self.restart = self._make(options), False, True
            self._copy_state()
            return []
        return parents

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return self._inner.hypotheses()

    def _loops(self) -> bool:
        """Returns whether the best target, or every row that may still become it, loops more than the source does."""
        if self._inner.done:
            generated = self._inner.generated or self._inner.hypotheses()[0].tokens
            return (found := longest_loop(generated)) > 0 and found > 2 * longest_loop(self._source)
        rows = self._inner.unfinished()
        if not rows or not all(ends_in_loop(row) for row in rows):
            return False
        return min(map(longest_loop, rows)) > 2 * longest_loop(self._source)
