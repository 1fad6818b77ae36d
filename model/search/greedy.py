"""Greedy search, and the scoring of a given target (forced decoding)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from model.model_folder import Generation
from model.search.base import DEFAULT_GENERATION, TRACED, ScoreRows, TokenRows, normalize, traced_candidates
from model.search.ngram_blocking import blocked_tokens
from model.search.options import DecodingOptions, Hypothesis, TraceStep


class GreedySearch:
    """Takes the likeliest token at every step; forced tokens come first."""

    def __init__(
        self,
        options: DecodingOptions,
        *,
        start: int,
        end: int,
        limit: int,
        forced: Sequence[int] = (),
        generation: Generation = DEFAULT_GENERATION,
        unseen: int = 0,
    ) -> None:
        self._unseen = unseen
        self._options, self._end, self._limit, self._prefix = options, end, limit, tuple(forced)
        self._ngram = 0 if options.target is not None else options.no_repeat_ngram_size
        self._forbidden, self._forced_end = frozenset(generation.forbidden), generation.forced_end
        # With one candidate a backend may run several steps at once; blocking needs every token before the next is
        # read.
        self._fewest = max(TRACED if options.trace else 1, 2 if self._ngram else 1)
        self.width, self.candidates, self.restart = 1, self._fewest + len(self._forbidden), False
        self.tokens = [start]
        self.forced = [self._prefix[0] if self._prefix else -1]
        self.done = False
        self.trace: list[TraceStep] = []
        self._blocked = self._forbidden if self.forced[0] < 0 else frozenset()
        self._generated: list[int] = []
        self._scores: list[float] = []
        self._stopped = False

    @property
    def known(self) -> Sequence[int]:
        return () if self._options.trace else self._prefix[len(self._scores) :]

    @property
    def generated(self) -> list[int]:
        return self._generated

    def unfinished(self) -> list[list[int]]:
        return [self._generated]

    def advance(self, ids: TokenRows, scores: ScoreRows) -> list[int]:
        best = 0
        while self._blocked and ids[0][best] in self._blocked:  # the end of sentence is never blocked
            best += 1
        token, score = ids[0][best], scores[0][best]
        self._scores.append(score)
        step = len(self._scores)
        self._stopped = token == self._end
        if self._forced_end and step >= self._limit:
            token, self._scores[-1] = self._end, 0.0
        self.done = token == self._end or step >= self._limit
        if token != self._end:
            self._generated.append(token)
        if self._options.trace:
            self._record(ids, scores, token)
        self.tokens = [token]
        self.forced = [self._prefix[step] if step < len(self._prefix) else -1]
        if self._ngram or self._forbidden:
            repeated = blocked_tokens(self._generated, self._ngram)
            self._blocked = self._forbidden | repeated if self.forced[0] < 0 else frozenset()
            self.candidates = self._fewest + len(self._blocked)
        return [] if self.done else [0]

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        score = normalize(math.fsum(self._scores), max(1, len(self._scores)) + self._unseen, self._options)
        reason = "stop" if self._stopped else "length"
        return (Hypothesis(tuple(self._generated), tuple(self._scores), score, reason),)  # type: ignore[arg-type]

    def _record(self, ids: TokenRows, scores: ScoreRows, token: int) -> None:
        entry = (0, token, math.fsum(self._scores))
        ended = token == self._end
        self.trace.append(
            TraceStep(traced_candidates(ids, scores), () if ended else (entry,), (entry,) if ended else ())
        )
