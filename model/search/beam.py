"""Beam search with length normalization. The live rows of all searches of a step are arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import starmap
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.model_folder import MAX_BEAM
from model.search.backend_interface import StepOutput
from model.search.options import RERANK_THRESHOLD, Hypothesis, TraceStep
from model.search.search import TRACED, Search, traced_candidates

_Frame = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
"""The parents, tokens and log-probabilities of the rows of some searches after a step, (B, K) each."""
_Finished = tuple[float, int, int, int, float, bool]
"""The score of a hypothesis, steps before its last one, then row, token and log-probability, whether the step is the last."""
_score_of = itemgetter(0)


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
        self.threshold = threshold if self.options.hypotheses == 1 or self.options.rerank else math.inf
        self.total: float | None = 0.0
        """The summed log-probability of the forced tokens, None once the rows are in BeamRows."""
        self._history: list[tuple[_Frame, int]] = []
        """The rows after each step, and the number of this search among those of the frame."""
        self._written: list[list[int]] = [[]]
        """The tokens of each row, with n-gram blocking only, which reads them at every step."""
        self._ended: list[tuple[int, int, float]] = []
        """The parents, tokens and totals of the rows that end in a step, for its trace."""
        self.selects = self.threshold < math.inf or self.options.shrinking_beam
        """Whether fewer rows than `beam_size` may go on where none ends."""
        super().begin()

    @property
    def ranks(self) -> int:
        """Returns how many continuations of the next step may go on or finish."""
        return self.width - len(self._finished) if self.options.shrinking_beam else 2 * self.width

    def finish(self, parent: int, token: int, number: float, total: float) -> None:
        """Adds the hypothesis of a row and its next token, if it is among the best."""
        if token == self.end and self.options.trace:
            self._ended.append((parent, token, total))
        score = self._score(total, self.steps + 1)
        if len(self._finished) < self.width or score > self._finished[-1][0]:
            self._finished.append((score, len(self._history), parent, token, number, self.steps + 1 >= self.limit))
            self._finished.sort(key=_score_of, reverse=True)  # stable: equal ones keep their order
            del self._finished[self.width :]

    def proceed(self, frame: _Frame, number: int, rows: int, best: float, last: bool) -> None:
        """Goes on with the first rows of a frame in its place of this number. The `best` of them has this total."""
        if not self.finite:
            self.fail()
            return
        self.steps += 1
        self.rows = rows
        self._history.append((frame, number))
        if last or not rows or (len(self._finished) >= self.width and self._settled(best)):
            self.done = True
        elif self._ngram:
            parents, tokens = frame[0][number, :rows].tolist(), frame[1][number, :rows].tolist()
            self._written = [[*self._written[row], token] for row, token in zip(parents, tokens, strict=True)]
            self._prepare(tokens)
        if self._guarded:
            self._check_loops()

    def record(self, ids: NDArray[np.int64], scores: NDArray[np.float32], chosen: Sequence[Sequence[Any]]) -> None:
        """Adds a step to the trace: the candidates of the rows before it; parents, tokens and totals of those after it."""
        shown = 1 if self.forced_end and self.steps + 1 >= self.limit else TRACED
        traced = traced_candidates(ids[:, :shown].tolist(), scores[:, :shown].tolist())
        self.trace.append(TraceStep(traced, tuple(zip(*chosen, strict=True)), tuple(self._ended)))
        self._ended = []

    def _advance(self, ids: Sequence[int], scores: Sequence[float]) -> None:
        self.total = total = (self.total or 0.0) + scores[0]
        frame = np.zeros((1, 1), dtype=np.int64), np.array([ids[:1]]), np.array([scores[:1]])
        if self.options.trace:
            self.trace.append(TraceStep(traced_candidates([ids], [scores]), ((0, ids[0], total),), ()))
        self.proceed(frame, 0, 1, total, last=False)
        self._prepare(ids[:1])

    def _hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(starmap(self._hypothesis, self._finished[: self.options.hypotheses]))

    def _hypothesis(self, score: float, steps: int, row: int, token: int, number: float, last: bool) -> Hypothesis:
        path = [*self._path(row, steps), (token, number)]
        tokens = [token for token, _ in (path[:-1] if token == self.end else path)]
        stopped = token == self.end and not (last and self.forced_end)
        return Hypothesis(tuple(tokens), tuple([score for _, score in path]), score, "stop" if stopped else "length")

    def _target(self, row: int) -> list[int]:
        return self._written[row] if self._ngram else [token for token, _ in self._path(row, len(self._history))]

    def _path(self, row: int, steps: int) -> list[tuple[int, float]]:
        """Returns the tokens and log-probabilities of a row after so many steps."""
        path = []
        for (parents, tokens, scores), number in reversed(self._history[:steps]):
            path.append((tokens.item(number, row), scores.item(number, row)))
            row = parents.item(number, row)
        return path[::-1]

    def _settled(self, best: float) -> bool:
        return self.options.early_stopping or self._finished[-1][0] >= self._score(best, self.steps)

    def _score(self, total: float, steps: int) -> float:
        return self._normalized(total, steps - self._unseen)


@dataclass(slots=True)
class BeamGroup:
    """Searches of one width in a step: the slots of their rows (B, K), which of them are live (B, K), the first of these
    in the output, and the number of candidates."""

    searches: list[BeamSearch]
    slots: NDArray[np.int64]
    totals: NDArray[np.float64]
    live: NDArray[np.bool_]
    first: int
    candidates: int

    def read(self, output: StepOutput) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Returns the candidates of all rows (B K, C) and their log-probabilities, any of them for rows that are missing.
        Leaves out the searches that were released meanwhile."""
        rows: slice | NDArray[np.int64] = slice(self.first, self.first + self.live.size)
        stay = [number for number, search in enumerate(self.searches) if search.slots]
        if len(stay) < len(self.searches) or np.count_nonzero(self.live) < self.live.size:
            rows = (self.first - 1 + self.live.cumsum()).reshape(self.live.shape)[stay].ravel()
            self.searches = [self.searches[number] for number in stay]
            self.slots, self.totals, self.live = self.slots[stay], self.totals[stay], self.live[stay]
        return output.ids[rows, : self.candidates], output.scores[rows, : self.candidates]


class BeamRows:
    """The rows of the beam searches of a model by slot: summed log-probabilities, -inf without a row, and tokens to read.
    A search has its rows in the first of its slots, best first."""

    def __init__(self, slots: int) -> None:
        self.totals, self.tokens = np.zeros(slots), np.zeros(slots, dtype=np.int64)
        self._slots = np.zeros((slots, MAX_BEAM), dtype=np.int64)
        """The slots of a search, at the first of them."""

    def group(self, searches: list[BeamSearch], first: int) -> BeamGroup:
        """Returns the rows of searches of one width, of which the output will have the first one in this row."""
        width = searches[0].width
        for search in searches:
            if search.total is not None:
                own = list(search.slots)
                self._slots[own[0], :width] = own
                self.totals[own] = -math.inf
                self.totals[own[0]], self.tokens[own[0]], search.total = search.total, search.tokens[0], None
        slots = self._slots[[search.slots[0] for search in searches], :width]
        totals = self.totals[slots]
        most = max([search.candidates for search in searches])
        return BeamGroup(searches, slots, totals, totals > -math.inf, first, most)

    def advance(self, group: BeamGroup, output: StepOutput) -> tuple[list[int], list[int]]:
        """Takes the output of a step. Returns slots whose rows continue those of other slots, and these other slots."""
        ids, scores = group.read(output)
        searches, slots, (count, width) = group.searches, group.slots, group.slots.shape
        if not searches:
            return [], []
        last = [search.steps + 1 >= search.limit for search in searches]
        if not (finite := math.isfinite(sum(scores[:, 0].tolist()))):
            for number in np.flatnonzero(~np.isfinite(scores[:, 0])).tolist():
                searches[number // width].finite = False
        sums, ids, scores = _allowed(searches, group.totals, ids, scores, last)
        columns, starts = ids.shape[1], _starts(count, width)
        order = (-sums).reshape(count, -1).argsort(axis=1, kind="stable")[:, : 2 * width]  # equal ones in their order
        at = order + starts * columns
        ranked = order // columns, ids.take(at), scores.take(at), sums.take(at)  # (B, 2 K) each
        parents, tokens, numbers, totals = [part[:, :width] for part in ranked]
        rows = [width] * count
        plain = finite and searches[0].end not in tokens.ravel().tolist() and math.isfinite(sum(totals[:, -1].tolist()))
        if not plain or True in last or True in [search.selects for search in searches]:
            going, kept = _select(searches, ranked, np.array(last)[:, None])
            parents, tokens, numbers, totals = [part.take(going) for part in ranked]
            totals[~kept], rows = -math.inf, kept.sum(axis=1).tolist()
        frame = parents, tokens, numbers
        self.totals[slots], self.tokens[slots] = totals, tokens
        origins = slots.take(parents + starts)
        moved = origins != slots
        for number, (search, best) in enumerate(zip(searches, totals[:, 0].tolist(), strict=True)):
            if search.options.trace:
                own, live = slice(number * width, number * width + search.rows), slice(rows[number])
                search.record(
                    ids[own], scores[own], [part[number, live].tolist() for part in (parents, tokens, totals)]
                )
            search.proceed(frame, number, rows[number], best, last[number])
            if search.done or search.restart:
                moved[number] = False
            elif rows[number] < width:
                moved[number, rows[number] :] = False
        return slots[moved].tolist(), origins[moved].tolist()


@lru_cache(maxsize=256)
def _starts(count: int, width: int) -> NDArray[np.int64]:
    """Returns the first place of each of `count` rows of this width (count, 1)."""
    return np.arange(0, count * width, width)[:, None]


def _allowed(
    searches: Sequence[BeamSearch],
    totals: NDArray[np.float64],
    ids: NDArray[np.int64],
    scores: NDArray[np.float32],
    last: list[bool],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float32]]:
    """Returns the summed log-probability of each continuation (B K, C), -inf for blocked ones, and the candidates, of which
    the last ones may be forced to be the end of sentence."""
    sums: NDArray[np.float64] = totals.reshape(-1, 1) + scores
    first, width = searches[0], searches[0].width
    for token in first.forbidden:
        sums[ids == token] = -math.inf
    for number, search in enumerate(searches):
        for row, blocked in enumerate(search.blocked, number * width) if search.blocked else ():
            if len(blocked) > len(first.forbidden):
                sums[row, [token in blocked for token in ids[row].tolist()]] = -math.inf
    if first.forced_end and True in last:
        closing, ids, scores = np.repeat(last, width), ids.copy(), scores.copy()
        ids[closing], scores[closing], sums[closing] = first.end, 0.0, -math.inf
        sums[closing, 0] = totals.ravel()[closing]
    return sums, ids, scores


def _select(
    searches: Sequence[BeamSearch], ranked: Sequence[NDArray[Any]], last: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Finishes the hypotheses among the ranked continuations. Returns the places of those that go on (B, K), and which of
    them do."""
    _, tokens, _, totals = ranked
    width, rank, ends = searches[0].width, np.arange(tokens.shape[1]), tokens == searches[0].end
    ranks = [search.ranks if search.finite else 0 for search in searches]
    valid = (totals > -math.inf) & (rank < np.array(ranks)[:, None])
    finished = (valid & (ends | last) & (rank < width)).nonzero()
    for number, *one in zip(finished[0].tolist(), *[part[finished].tolist() for part in ranked], strict=True):
        searches[number].finish(*one)
    live = valid & ~ends
    going = (~live).argsort(axis=1, kind="stable")[:, :width] + _starts(len(searches), rank.size)
    totals = totals.take(going)
    least = totals[:, :1] - np.array([search.threshold for search in searches])[:, None]
    return going, live.take(going) & ((totals >= least) | last)
