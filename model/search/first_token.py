"""A first target token that names the target language (M2M100, NLLB): forced, and not part of the target."""

from __future__ import annotations

from collections.abc import Sequence

from model.search.base import ScoreRows, Search, TokenRows
from model.search.options import Hypothesis, TraceStep


class FirstTokenSearch:
    """Takes one step from `start` that yields `first`, then runs `inner`, whose start token is `first`."""

    restart = False

    def __init__(self, inner: Search, *, start: int, first: int) -> None:
        self._inner, self._start, self._first = inner, start, first
        self._waiting = True

    @property
    def width(self) -> int:
        return self._inner.width

    @property
    def candidates(self) -> int:
        return self._inner.candidates

    @property
    def tokens(self) -> list[int]:
        return [self._start] if self._waiting else self._inner.tokens

    @property
    def forced(self) -> list[int]:
        return [self._first] if self._waiting else self._inner.forced

    @property
    def known(self) -> Sequence[int]:
        return (self._first, *self._inner.known) if self._waiting else self._inner.known

    @property
    def done(self) -> bool:
        return self._inner.done

    @property
    def trace(self) -> list[TraceStep]:
        return self._inner.trace

    @property
    def generated(self) -> list[int]:
        return self._inner.generated

    def unfinished(self) -> list[list[int]]:
        return self._inner.unfinished()

    def advance(self, ids: TokenRows, scores: ScoreRows) -> list[int]:
        if self._waiting:
            self._waiting = False
            return [0]
        return self._inner.advance(ids, scores)

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return self._inner.hypotheses()
