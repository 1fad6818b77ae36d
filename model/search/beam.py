"""Beam search with length normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from model.search.backend_interface import StepOutput
from model.search.options import RERANK_THRESHOLD, Hypothesis, TraceStep
from model.search.search import Search, traced_candidates

_Continuation = tuple[float, int, int, float]
"""Summed log-probability, parent row, token, its log-probability."""
_total = itemgetter(0)
_FEW = 3
"""Up to so many searches are faster one by one than as arrays."""


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

    def begin(self) -> None:
        threshold = math.inf if self._beam_threshold is None else self._beam_threshold
        if self.options.rerank:
            threshold = max(threshold, RERANK_THRESHOLD)
        self._threshold = threshold if self.options.hypotheses == 1 or self.options.rerank else math.inf
        self.totals = [0.0]
        """The summed log-probability of each live row, best first."""
        self._history: list[tuple[Sequence[int], Sequence[int], Sequence[float]]] = []
        """The parents, tokens and log-probabilities of the rows after each step."""
        self._written: list[list[int]] = [[]]
        """The tokens of each row, with n-gram blocking only, which reads them at every step."""
        self.special = self.options.trace or self.options.shrinking_beam or self._forced_end
        super().begin()

    @property
    def last(self) -> bool:
        """Returns whether the next step is the last one."""
        return self.steps + 1 >= self._limit

    def select(self, output: StepOutput, first: int) -> Sequence[int]:
        """Takes the candidates of its rows, of which the `first` is given. Returns the parents of the next rows, none when
        done."""
        rows = slice(first, first + len(self.totals))
        ids, scores = output.ids[rows].tolist(), output.scores[rows].tolist()
        if not math.isfinite(sum([row[0] for row in scores])):
            return self.fail()
        ends = self._forced_end and self.last
        if ends:
            ids, scores = [[self.end]] * len(ids), [[0.0]] * len(ids)
        found: list[_Continuation] = []
        for parent, total in enumerate(self.totals):
            blocked = () if ends else self.blocked[parent] if self.blocked else self.forbidden
            found += [
                (total + score, parent, token, score)
                for token, score in zip(ids[parent][: self.candidates], scores[parent], strict=False)
                if score > -math.inf and token not in blocked
            ]
        found.sort(key=_total, reverse=True)  # stable: equal ones keep their order
        traced = traced_candidates(ids, scores) if self.options.trace else ()
        return self.choose(found[: 2 * self.width], traced)

    def choose(
        self, ranked: list[_Continuation], traced: tuple[tuple[tuple[int, float], ...], ...] = ()
    ) -> Sequence[int]:
        """Takes the 2 k best continuations, best first. Returns the parents of the next rows, none when done."""
        width, last = self.width, self.last
        if self.options.shrinking_beam:
            del ranked[width - len(self._finished) :]
        live, ended = [], []
        for rank, one in enumerate(ranked):
            if one[2] != self.end:
                live.append(one)
            elif rank < width:
                ended.append(one)
            if rank < width and (last or one[2] == self.end):
                self._finish(one, last)
        del live[width:]
        totals, parents, tokens, scores = map(list, zip(*live, strict=True)) if live else ([], [], [], [])
        return self.proceed(totals, parents, tokens, scores, ended, traced)

    def proceed(
        self,
        totals: list[float],
        parents: Sequence[int],
        tokens: Sequence[int],
        scores: Sequence[float],
        ended: Sequence[_Continuation] = (),
        traced: tuple[tuple[tuple[int, float], ...], ...] = (),
    ) -> Sequence[int]:
        """Goes on with these rows, best first, without those that the threshold prunes. Returns their parents, none when
        done."""
        last = self.last
        self.steps += 1
        if totals and not last and totals[-1] < (least := totals[0] - self._threshold):
            rows = sum([total >= least for total in totals])
            totals, parents, tokens, scores = totals[:rows], parents[:rows], tokens[:rows], scores[:rows]
        if self.options.trace:
            finished = tuple((parent, token, total) for total, parent, token, _ in ended)
            self.trace.append(TraceStep(traced, tuple(zip(parents, tokens, totals, strict=True)), finished))
        if last or not totals or (len(self._finished) >= self.width and self._settled(totals[0])):
            self.done, parents = True, ()
        else:
            self._history.append((parents, tokens, scores))
            self.totals = totals
            if self._ngram:
                self._written = [[*self._written[row], token] for row, token in zip(parents, tokens, strict=True)]
            self._prepare(tokens)
        if self._guarded:
            self._check_loops()
        return () if self.restart else parents

    def _advance(self, ids: Sequence[int], scores: Sequence[float]) -> None:
        traced = traced_candidates([ids], [scores]) if self.options.trace else ()
        self.proceed([self.totals[0] + scores[0]], [0], ids[:1], scores[:1], (), traced)

    def _hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self._finished[: self.options.hypotheses])

    def _target(self, row: int) -> list[int]:
        return self._written[row] if self._ngram else [tokens[place] for tokens, _, place in self._path(row)]

    def _path(self, row: int) -> list[tuple[Sequence[int], Sequence[float], int]]:
        """Returns the tokens and log-probabilities of all rows after each step, and which of them became `row`."""
        path = []
        for parents, tokens, scores in reversed(self._history):
            path.append((tokens, scores, row))
            row = parents[row]
        return path[::-1]

    def _settled(self, best: float) -> bool:
        return self.options.early_stopping or self._finished[-1].score >= self._score(best, self.steps)

    def _score(self, total: float, steps: int) -> float:
        return self._normalized(total, steps - self._unseen)

    def _finish(self, continuation: _Continuation, last: bool) -> None:
        """Adds a hypothesis, if it is among the best."""
        total, parent, token, number = continuation
        score = self._score(total, self.steps + 1)
        if len(self._finished) == self.width and score <= self._finished[-1].score:
            return
        path = self._path(parent)
        tokens = [tokens[row] for tokens, _, row in path]
        numbers = [*[scores[row] for _, scores, row in path], number]
        stopped = token == self.end and not (last and self._forced_end)
        tokens += [] if token == self.end else [token]
        found = Hypothesis(tuple(tokens), tuple(numbers), score, "stop" if stopped else "length")
        self._finished.append(found)
        self._finished.sort(key=lambda hypothesis: -hypothesis.score)
        del self._finished[self.width :]


def advance_beams(beams: Sequence[tuple[BeamSearch, int]], output: StepOutput) -> list[Sequence[int]]:
    """Advances searches of one width, each with its first row in the output of a step. Returns the parents of the rows of
    their next steps, none for those that are done."""
    if len(beams) <= _FEW:
        return [search.select(output, first) for search, first in beams]
    width, end, forbidden = beams[0][0].width, beams[0][0].end, beams[0][0].forbidden
    rows: list[int] = []
    totals: list[float] = []
    lacking: list[int] = []
    for search, first in beams:
        live = len(search.totals)
        rows += range(first, first + live)
        totals += search.totals
        if live < width:  # any numbers, which the mask below excludes
            lacking += range(len(rows), len(rows) + width - live)
            rows += [first] * (width - live)
            totals += [0.0] * (width - live)
    columns = max([search.candidates for search, _ in beams])
    ids, scores = output.ids[:, :columns].take(rows, axis=0), output.scores[:, :columns].take(rows, axis=0)
    sums = np.array(totals)[:, None] + scores  # (searches x width, C)
    sums[lacking] = -math.inf
    for token in forbidden:
        sums[ids == token] = -math.inf
    for number, (search, _) in enumerate(beams):
        for row, blocked in enumerate(search.blocked, number * width) if search.blocked else ():
            if len(blocked) > len(forbidden):
                sums[row, [token in blocked for token in ids[row].tolist()]] = -math.inf
    order = (-sums).reshape(len(beams), -1).argsort(axis=1, kind="stable")[:, : 2 * width]  # equal ones in their order
    places = order + np.arange(0, sums.size, sums.size // len(beams))[:, None]
    best, tokens = sums.take(places), ids.take(places)
    ranked = best, order // sums.shape[1], tokens, scores.take(places)
    finite = np.isfinite(scores[:, 0]).tolist()
    others = (~(best[:, width - 1] > -math.inf) | (tokens == end).any(axis=1)).tolist()
    found: list[Sequence[int]] = []
    for number, values in enumerate(zip(*[column[:, :width].tolist() for column in ranked], strict=True)):
        search, first = beams[number]
        if search.special or False in finite[number * width : number * width + width]:
            found.append(search.select(output, first))
        elif others[number] or search.last:
            each = zip(*[column[number].tolist() for column in ranked], strict=True)
            found.append(search.choose([one for one in each if one[0] > -math.inf]))
        else:
            found.append(search.proceed(*values))
    return found
