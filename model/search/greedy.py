"""Greedy search, and the scoring of a given target (forced decoding)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from model.search.backend_interface import ScoreRows, TokenRows
from model.search.options import Hypothesis, TraceStep
from model.search.search import Search, traced_candidates


class GreedySearch(Search):
    """Takes the likeliest token at every step."""

    def _begin(self) -> None:
        super()._begin()
        self._scores: list[float] = []
        self._stopped = False

    def _hypotheses(self) -> tuple[Hypothesis, ...]:
        score = self._normalized(math.fsum(self._scores), len(self._scores))
        reason = "stop" if self._stopped else "length"
        return (Hypothesis(tuple(self.generated), tuple(self._scores), score, reason),)  # type: ignore[arg-type]

    def _advance(self, ids: TokenRows, scores: ScoreRows) -> list[int]:
        best, blocked = 0, self._blocked[0] if self._blocked else ()
        while blocked and ids[0][best] in blocked:  # the end of sentence is never blocked
            best += 1
        token, score = ids[0][best], scores[0][best]
        self._scores.append(score)
        step = len(self._scores)
        self._stopped = token == self._end
        if self._forced_end and step >= self._limit:
            token, self._scores[-1] = self._end, 0.0
        self.done = token == self._end or step >= self._limit
        if token != self._end:
            self.generated.append(token)
        if self._options.trace:
            self._record(ids, scores, token)
        if self.done:
            return []
        self.tokens = [token]
        self._prepare([self.generated])
        return [0]

    def _position(self) -> int:
        return len(self._scores)

    def _unfinished(self) -> Sequence[Sequence[int]]:
        return [self.generated]

    def _record(self, ids: TokenRows, scores: ScoreRows, token: int) -> None:
        entry = (0, token, math.fsum(self._scores))
        ended = token == self._end
        self.trace.append(
            TraceStep(traced_candidates(ids, scores), () if ended else (entry,), (entry,) if ended else ())
        )
