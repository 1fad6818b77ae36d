"""Greedy search, and the scoring of a given target (forced decoding)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from model.search.options import Hypothesis, TraceStep
from model.search.search import CHECK_INTERVAL, Search, traced_candidates


class GreedySearch(Search):
    """Takes the likeliest token at every step."""

    def begin(self) -> None:
        super().begin()
        self._scores: list[float] = []
        self._stopped = False

    def extend(self, tokens: list[int], scores: list[float]) -> None:
        """Takes the tokens that the device chose in some steps and read in all but the last."""
        after = self.steps + len(tokens)
        among = self._guarded and self.steps // CHECK_INTERVAL < (after - 1) // CHECK_INTERVAL
        if self.end in tokens or after >= self.limit or among or not math.isfinite(sum(scores)):
            for token, score in zip(tokens, scores, strict=True):
                if not (self.done or self.restart):
                    self.advance((token,), (score,))
            return
        self.steps = after
        self.generated += tokens
        self._scores += scores
        self.tokens = tokens[-1:]
        self._check_loops()

    def _hypotheses(self) -> tuple[Hypothesis, ...]:
        score = self._normalized(math.fsum(self._scores), len(self._scores))
        reason = "stop" if self._stopped else "length"
        return (Hypothesis(tuple(self.generated), tuple(self._scores), score, reason),)  # type: ignore[arg-type]

    def _advance(self, ids: Sequence[int], scores: Sequence[float]) -> None:
        best, blocked = 0, self.blocked[0] if self.blocked else self.forbidden
        while self.forced < 0 and ids[best] in blocked:  # the end of sentence is never blocked
            best += 1
        token, score = ids[best], scores[best]
        self.steps += 1
        last = self.steps >= self.limit
        self._stopped = token == self.end
        if self.forced_end and last:
            token, score = self.end, 0.0
        self._scores.append(score)
        self.done = last or token == self.end
        if token != self.end:
            self.generated.append(token)
        if self.options.trace:
            entry = ((0, token, math.fsum(self._scores)),)
            chosen, finished = ((), entry) if token == self.end else (entry, ())
            self.trace.append(TraceStep(traced_candidates([ids], [scores]), chosen, finished))
        if not self.done:
            self._prepare([token])
        self._check_loops()

    def _target(self, row: int) -> list[int]:
        return self.generated
