"""Beam search with length normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from model.search.backend_interface import ScoreRows, TokenRows
from model.search.options import RERANK_THRESHOLD, Hypothesis, TraceStep
from model.search.search import Search, traced_candidates

_Continuation = tuple[float, int, int, float]
"""Summed log-probability, parent row, token, its log-probability."""
_total = itemgetter(0)


@dataclass(slots=True)
class _Beam:
    """One live row: tokens, their log-probabilities, and the sum."""

    tokens: tuple[int, ...]
    scores: tuple[float, ...]
    total: float


class BeamSearch(Search):
    """Keeps the `beam_size` best prefixes at every step.

    A candidate that ends the sentence, or that comes in the last step, is kept if it ranks among the first `beam_size`.
    The search stops when `beam_size` hypotheses are finished and no live row, at its present length, scores higher than
    the worst of them (Hugging Face's default rule). With `early_stopping` it stops as soon as `beam_size` are finished
    (CTranslate2's rule). With `shrinking_beam` live and finished hypotheses are `beam_size` together, and the search
    stops when none is live (Marian's rule).

    If the model states a `beam_threshold`, live rows are pruned whose log-probability is more than that below the best
    live row (relative threshold pruning, Freitag and Al-Onaizan 2017), but for an n-best list that is not reranked.
    """

    def _begin(self) -> None:
        super()._begin()
        threshold = math.inf if self._beam_threshold is None else self._beam_threshold
        if self._options.rerank:
            threshold = max(threshold, RERANK_THRESHOLD)
        self._threshold = threshold if self._options.hypotheses == 1 or self._options.rerank else math.inf
        self._live = [_Beam((), (), 0.0)]
        self._finished: list[Hypothesis] = []

    def _hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self._finished[: self._options.hypotheses])

    def _position(self) -> int:
        return len(self._live[0].tokens)

    def _unfinished(self) -> Sequence[Sequence[int]]:
        return [] if self._finished else [beam.tokens for beam in self._live]

    def _advance(self, ids: TokenRows, scores: ScoreRows) -> list[int]:
        step = len(self._live[0].tokens)
        last = step + 1 >= self._limit
        forced = step < len(self._prefix)
        if last and self._forced_end:
            ids, scores = [[self._end]] * len(self._live), [[0.0]] * len(self._live)
        ranked = self._rank(ids, scores, 1 if forced else self.candidates)
        if self._options.shrinking_beam:
            del ranked[self.width - len(self._finished) :]
        parents: list[int] = []
        live: list[_Beam] = []
        least = -math.inf  # of a live row
        ended: list[tuple[int, int, float]] = []
        for rank, (total, parent, token, score) in enumerate(ranked):
            row = self._live[parent]
            if token == self._end and not forced:
                if rank < self.width:
                    ended.append((parent, token, total))
                    reason = "length" if last and self._forced_end else "stop"
                    self._finish(_Beam(row.tokens, (*row.scores, score), total), reason)
                continue
            if len(live) < self.width and total >= least:
                live.append(_Beam((*row.tokens, token), (*row.scores, score), total))
                parents.append(parent)
                if last and rank < self.width:
                    self._finish(live[-1], "length")
                elif not last:
                    least = live[0].total - self._threshold
        if self._options.trace:
            chosen = tuple((p, beam.tokens[-1], beam.total) for p, beam in zip(parents, live, strict=True))
            self.trace.append(TraceStep(traced_candidates(ids, scores), chosen, tuple(ended)))
        return self._next(live, parents, step + 1)

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

    def _next(self, live: list[_Beam], parents: list[int], step: int) -> list[int]:
        self.done = not live or step >= self._limit or self._settled(live, step)
        if self.done:
            return []
        self._live = live
        self.tokens = [beam.tokens[-1] for beam in live]
        self._prepare([beam.tokens for beam in live])
        return parents

    def _settled(self, live: list[_Beam], step: int) -> bool:
        if len(self._finished) < self.width:
            return False
        if self._options.early_stopping:
            return True
        best = max(beam.total for beam in live)
        return self._finished[-1].score >= self._normalized(best, step)

    def _finish(self, beam: _Beam, reason: str) -> None:
        score = self._normalized(beam.total, len(beam.scores))
        self._finished.append(Hypothesis(beam.tokens, beam.scores, score, reason))  # type: ignore[arg-type]
        self._finished.sort(key=lambda hypothesis: -hypothesis.score)
        del self._finished[self.width :]
