"""Beam search with length normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from model.model_folder import Generation
from model.search.base import DEFAULT_GENERATION, TRACED, ScoreRows, TokenRows, normalize, traced_candidates
from model.search.ngram_blocking import blocked_tokens
from model.search.options import RERANK_THRESHOLD, DecodingOptions, Hypothesis, TraceStep

_Continuation = tuple[float, int, int, float]
"""Summed log-probability, parent row, token, its log-probability."""
_total = itemgetter(0)


@dataclass(slots=True)
class _Beam:
    """One live row: tokens, their log-probabilities, and the sum."""

    tokens: tuple[int, ...]
    scores: tuple[float, ...]
    total: float


class BeamSearch:
    """Keeps the `beam_size` best prefixes at every step.

    A candidate that ends the sentence, or that comes in the last step, is kept if it ranks among the first `beam_size`.
    The search stops when `beam_size` hypotheses are finished and no live row, at its present length, scores higher than
    the worst of them (Hugging Face's default rule). With `early_stopping` it stops as soon as `beam_size` are finished
    (CTranslate2's rule). With `shrinking_beam` live and finished hypotheses are `beam_size` together, and the search
    stops when none is live (Marian's rule).

    If the model states a `beam_threshold`, live rows are pruned whose log-probability is more than that below the best
    live row (relative threshold pruning, Freitag and Al-Onaizan 2017).
    """

    def __init__(
        self,
        options: DecodingOptions,
        *,
        start: int,
        end: int,
        limit: int,
        generation: Generation = DEFAULT_GENERATION,
        unseen: int = 0,
    ) -> None:
        self._unseen = unseen
        self._options, self._end, self._limit = options, end, limit
        self._forbidden, self._forced_end = frozenset(generation.forbidden), generation.forced_end
        self._threshold = math.inf if generation.beam_threshold is None else generation.beam_threshold
        if options.rerank:
            self._threshold = max(self._threshold, RERANK_THRESHOLD)
        self.width, self.restart = options.beam_size, False
        self._fewest = max(2 * options.beam_size, TRACED if options.trace else 0)
        self.candidates = self._fewest + len(self._forbidden)
        self.tokens = [start]
        self.forced = [options.prefix[0] if options.prefix else -1]
        self.done = False
        self.trace: list[TraceStep] = []
        self._live = [_Beam((), (), 0.0)]
        self._blocked: list[frozenset[int]] = [self._forbidden] if self._forbidden and not options.prefix else []
        self._finished: list[Hypothesis] = []

    @property
    def known(self) -> Sequence[int]:
        return () if self._options.trace else self._options.prefix[len(self._live[0].tokens) :]

    @property
    def generated(self) -> list[int]:
        return []

    def unfinished(self) -> list[list[int]]:
        return [] if self._finished else [list(beam.tokens) for beam in self._live]

    def advance(self, ids: TokenRows, scores: ScoreRows) -> list[int]:
        step = len(self._live[0].tokens)
        last = step + 1 >= self._limit
        forced = step < len(self._options.prefix)
        if last and self._forced_end:
            ids, scores = [[self._end]] * len(self._live), [[0.0]] * len(self._live)
        ranked = self._rank(ids, scores, 1 if forced else self.candidates)
        if self._options.shrinking_beam:
            del ranked[self.width - len(self._finished) :]
        parents: list[int] = []
        live: list[_Beam] = []
        ended: list[tuple[int, int, float]] = []
        for rank, (total, parent, token, score) in enumerate(ranked):
            row = self._live[parent]
            if token == self._end and not forced:
                if rank < self.width:
                    ended.append((parent, token, total))
                    reason = "length" if last and self._forced_end else "stop"
                    self._finish(_Beam(row.tokens, (*row.scores, score), total), reason)
                continue
            if len(live) < self.width:
                live.append(_Beam((*row.tokens, token), (*row.scores, score), total))
                parents.append(parent)
                if last and rank < self.width:
                    self._finish(live[-1], "length")
        self._prune(live, parents)
        if self._options.trace:
            chosen = tuple((p, beam.tokens[-1], beam.total) for p, beam in zip(parents, live, strict=True))
            self.trace.append(TraceStep(traced_candidates(ids, scores), chosen, tuple(ended)))
        return self._next(live, parents, step + 1)

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self._finished[: self._options.hypotheses])

    def _rank(self, ids: TokenRows, scores: ScoreRows, columns: int) -> list[_Continuation]:
        """Returns the 2 k best continuations, best first, of the first `columns` candidates of each row."""
        ranked: list[_Continuation] = []
        for parent, beam in enumerate(self._live):
            total, blocked = beam.total, self._blocked[parent] if self._blocked else ()
            ranked += [
                (total + score, parent, token, score)
                for token, score in zip(ids[parent][:columns], scores[parent][:columns], strict=True)
                if score > -math.inf and token not in blocked
            ]
        ranked.sort(key=_total, reverse=True)  # stable: equal ones keep their order
        return ranked[: 2 * self.width]

    def _prune(self, live: list[_Beam], parents: list[int]) -> None:
        """Removes the rows below the threshold from `live` (best first) and `parents`."""
        while live and live[-1].total < live[0].total - self._threshold:
            live.pop()
            parents.pop()

    def _next(self, live: list[_Beam], parents: list[int], step: int) -> list[int]:
        self.done = not live or step >= self._limit or self._settled(live, step)
        if self.done:
            return []
        self._live = live
        self.tokens = [beam.tokens[-1] for beam in live]
        prefix = self._options.prefix
        self.forced = [prefix[step] if step < len(prefix) else -1] * len(live)
        size = self._options.no_repeat_ngram_size
        if step < len(prefix):
            self._blocked = []
        elif size or self._forbidden:
            self._blocked = [self._forbidden | blocked_tokens(beam.tokens, size) for beam in live]
            self.candidates = self._fewest + max(map(len, self._blocked))
        return parents

    def _settled(self, live: list[_Beam], step: int) -> bool:
        if len(self._finished) < self.width:
            return False
        if self._options.early_stopping:
            return True
        best = max(beam.total for beam in live)
        return self._finished[-1].score >= normalize(best, step + self._unseen, self._options)

    def _finish(self, beam: _Beam, reason: str) -> None:
        score = normalize(beam.total, max(1, len(beam.scores)) + self._unseen, self._options)
        self._finished.append(Hypothesis(beam.tokens, beam.scores, score, reason))  # type: ignore[arg-type]
        self._finished.sort(key=lambda hypothesis: -hypothesis.score)
        del self._finished[self.width :]
