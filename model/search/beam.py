"""Beam search with length normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, count, starmap
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from model.search.options import RERANK_THRESHOLD, Hypothesis, TraceStep
from model.search.search import Search, traced_candidates

_Continuation = tuple[float, int, int, float]
"""Summed log-probability, parent row, token, its log-probability."""
_Finished = tuple[float, int, int, int, float, bool]
"""The score of a hypothesis, steps before its last one, row, token and log-probability, whether the
step is the last."""
_first = itemgetter(0)
_FEW = 3
"""Up to this number, searches are faster one by one: a call of NumPy takes microseconds."""


class BeamSearch(Search):
    """Keeps the `beam_size` best prefixes at every step.

    A candidate that ends the sentence, or comes in the last step, is kept if it ranks among the
    first `beam_size`. The search stops when `beam_size` hypotheses are finished and no live row, at
    its present length, scores higher than the worst of them (Hugging Face's default rule). With
    `early_stopping` it stops as soon as `beam_size` are finished (CTranslate2's rule). With
    `shrinking_beam` live and finished hypotheses are `beam_size` together, and the search stops
    when none is live (Marian's rule).

    If the model states a `beam_threshold`, live rows more than that below the best live row are
    pruned (relative threshold pruning, Freitag and Al-Onaizan 2017), except for an n-best list that
    is not reranked.
    """

    def begin(self) -> None:
        threshold = math.inf if self._beam_threshold is None else self._beam_threshold
        if self.options.rerank:
            threshold = max(threshold, RERANK_THRESHOLD)
        self._threshold = (
            threshold if self.options.hypotheses == 1 or self.options.rerank else math.inf
        )
        self.totals = [0.0]
        """The summed log-probability of each live row, best first."""
        self._history: list[tuple[Sequence[int], Sequence[int], Sequence[float]]] = []
        """Parents, tokens and log-probabilities of the rows after each step."""
        self._written: list[list[int]] = [[]]
        """The tokens of each row, only with n-gram blocking, which reads them at every step."""
        self.plain = 0 if self.options.trace or self.options.shrinking_beam else self.limit - 1
        """Steps before the first that only `select` takes, even if nothing ends there."""
        super().begin()

    def select(self, ids: list[list[int]], scores: list[list[float]]) -> Sequence[int]:
        """Takes the candidates of its rows. Returns the parents of the next rows, none when
        done."""
        if not math.isfinite(sum([row[0] for row in scores])):
            return self.fail()
        width, last = self.width, self.steps + 1 >= self.limit
        if last and self.forced_end:
            ids, scores = [[self.end]] * len(ids), [[0.0]] * len(ids)
        continuations: list[_Continuation] = []
        for parent, total in enumerate(self.totals):
            blocked = self.blocked[parent] if self.blocked else self.forbidden
            continuations += [
                (total + score, parent, token, score)
                for token, score in zip(ids[parent], scores[parent], strict=True)
                if score > -math.inf and token not in blocked
            ]
        continuations.sort(key=_first, reverse=True)  # stable: equal ones keep their order
        live, ended = [], []
        most = width - len(self._finished) if self.options.shrinking_beam else 2 * width
        for rank, continuation in enumerate(continuations[:most]):
            if continuation[2] != self.end:
                live.append(continuation)
            elif rank < width:
                ended.append(continuation)
            if rank < width and (last or continuation[2] == self.end):
                self._finish(continuation, last)
        totals, parents, tokens, numbers = (
            map(list, zip(*live[:width], strict=True)) if live else ([],) * 4
        )
        traced = traced_candidates(ids, scores) if self.options.trace else ()
        return self.proceed(parents, tokens, numbers, totals, last, traced, ended)

    def proceed(
        self,
        parents: list[int],
        tokens: list[int],
        scores: list[float],
        totals: list[float],
        last: bool = False,
        traced: tuple[tuple[tuple[int, float], ...], ...] = (),
        ended: Sequence[_Continuation] = (),
    ) -> Sequence[int]:
        """Continues with these rows, best first, without those that the threshold prunes. Returns
        their parents, none when done."""
        self.steps += 1
        if totals and totals[-1] < (least := totals[0] - self._threshold) and not last:
            rows = sum([total >= least for total in totals])
            parents, tokens, scores, totals = (
                parents[:rows],
                tokens[:rows],
                scores[:rows],
                totals[:rows],
            )
        if self.options.trace:
            finished = tuple((parent, token, total) for total, parent, token, _ in ended)
            self.trace.append(
                TraceStep(traced, tuple(zip(parents, tokens, totals, strict=True)), finished)
            )
        if last or not totals or (len(self._finished) >= self.width and self._settled(totals[0])):
            self.done = True
        else:
            self._history.append((parents, tokens, scores))
            self.totals = totals
            if self._ngram:
                self._written = [
                    [*self._written[row], token] for row, token in zip(parents, tokens, strict=True)
                ]
            if self._ngram or self.forbidden or self.forced >= 0:
                self._prepare(tokens)
            else:
                self.tokens = tokens
        if self._guarded:
            self._check_loops()
        return () if self.done or self.restart else parents

    def _advance(self, ids: Sequence[int], scores: Sequence[float]) -> None:
        traced = traced_candidates([ids], [scores]) if self.options.trace else ()
        self.proceed([0], [ids[0]], [scores[0]], [self.totals[0] + scores[0]], False, traced)

    def _hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(starmap(self._hypothesis, self._finished[: self.options.hypotheses]))

    def _hypothesis(
        self, score: float, steps: int, row: int, token: int, number: float, last: bool
    ) -> Hypothesis:
        path = [*self._path(row, steps), (token, number)]
        tokens = [token for token, _ in (path[:-1] if token == self.end else path)]
        stopped = token == self.end and not (last and self.forced_end)
        return Hypothesis(
            tuple(tokens),
            tuple([score for _, score in path]),
            score,
            "stop" if stopped else "length",
        )

    def _target(self, row: int) -> list[int]:
        return (
            self._written[row]
            if self._ngram
            else [token for token, _ in self._path(row, len(self._history))]
        )

    def _path(self, row: int, steps: int) -> list[tuple[int, float]]:
        """Returns the tokens and log-probabilities of a row after `steps`."""
        path = []
        for parents, tokens, scores in reversed(self._history[:steps]):
            path.append((tokens[row], scores[row]))
            row = parents[row]
        return path[::-1]

    def _settled(self, best: float) -> bool:
        return self.options.early_stopping or self._finished[-1][0] >= self._score(best, self.steps)

    def _score(self, total: float, steps: int) -> float:
        return self._normalized(total, steps - self._unseen)

    def _finish(self, continuation: _Continuation, last: bool) -> None:
        total, parent, token, number = continuation
        score = self._score(total, self.steps + 1)
        if len(self._finished) < self.width or score > self._finished[-1][0]:
            self._finished.append((score, len(self._history), parent, token, number, last))
            self._finished.sort(key=_first, reverse=True)  # stable: equal ones keep their order
            del self._finished[self.width :]


def advance_beams(
    searches: Sequence[BeamSearch], ids: NDArray[np.int64], scores: NDArray[np.float32]
) -> list[Sequence[int]]:
    """Advances searches of one width by the candidates of their rows, one search after the other.
    Returns the parents of the rows of their next steps, none for those that are done."""
    if len(searches) <= _FEW:
        listed, numbered, chosen = ids.tolist(), scores.tolist(), []
        for search in searches:
            live = len(search.totals)
            chosen.append(search.select(listed[:live], numbered[:live]))
            del listed[:live], numbered[:live]
        return chosen
    columns, width, end = (
        max([search.candidates for search in searches]),
        searches[0].width,
        searches[0].end,
    )
    ids, scores, totals = _aligned(searches, ids[:, :columns], scores[:, :columns])
    sums = totals[:, None] + scores  # (rows of all searches, C), float64
    _exclude(searches, ids, sums)
    columns, rows = ids.shape[1], len(ids) // len(searches)
    # equal ones keep their order
    order = (-sums).reshape(len(searches), -1).argsort(axis=1, kind="stable")
    places = order[:, :width]
    parents = (places // columns).tolist()
    if len(searches) > 1:
        places = places + np.arange(0, sums.size, rows * columns)[:, None]
    finite = math.isfinite(sum(scores[:, 0].tolist()))
    ranked = [values.take(places).tolist() for values in (ids, scores, sums)]
    chosen = []
    for first, search, own, tokens, numbers, summed in zip(
        count(0, rows), searches, parents, *ranked, strict=False
    ):
        if finite and search.steps < search.plain and summed[-1] > -math.inf and end not in tokens:
            chosen.append(search.proceed(own, tokens, numbers, summed))
        else:
            part = slice(first, first + len(search.totals))
            chosen.append(search.select(ids[part].tolist(), scores[part].tolist()))
    return chosen


def _aligned(
    searches: Sequence[BeamSearch], ids: NDArray[np.int64], scores: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float64]]:
    """Returns candidates, their log-probabilities and the totals of rows, padded to equally many
    for each search; padding has a total of -inf."""
    live = [search.totals for search in searches]
    most = max(map(len, live))
    if len(ids) < most * len(searches):
        rows = []
        first = 0
        for totals in live:
            rows += [*range(first, first + len(totals)), *[first] * (most - len(totals))]
            first += len(totals)
        ids, scores = ids.take(rows, axis=0), scores.take(rows, axis=0)
        live = [[*totals, *[-math.inf] * (most - len(totals))] for totals in live]
    return ids, scores, np.fromiter(chain.from_iterable(live), np.float64, len(ids))


def _exclude(
    searches: Sequence[BeamSearch], ids: NDArray[np.int64], sums: NDArray[np.float64]
) -> None:
    forbidden = searches[0].forbidden
    for token in forbidden:
        sums[ids == token] = -math.inf
    for number, search in enumerate(searches):
        for row, blocked in (
            enumerate(search.blocked, number * len(ids) // len(searches)) if search.blocked else ()
        ):
            if len(blocked) > len(forbidden):
                sums[row, [token in blocked for token in ids[row].tolist()]] = -math.inf
