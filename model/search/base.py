"""Greedy and beam search as one small state machine per sentence, and a loop that decodes many sentences on a backend.

A search says which tokens its rows read next (`tokens`), is told the likeliest next tokens of each row (`advance`), and
answers which rows survive. It never touches the model, so whoever owns the model may step many searches together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from model.search.ngram_blocking import GuardedSearch, banned
from model.search.options import DecodingOptions, Hypothesis, TraceStep


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Likeliest next tokens of each row, best first: ids (B, C) and natural log-probabilities (B, C). A forced row has its
    forced token in column 0."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]


class Backend(Protocol):
    """What searches run on. A slot holds one row: what was decoded so far and the source it reads."""

    slots: int

    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int],
        masked_heads: Sequence[tuple[tuple[str, int, int], ...]] = (),
    ) -> None:
        """Encode sources and begin a row for each in its slot."""

    def step(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]
    ) -> StepOutput:
        """Advance each row by its token. `forced[i]` >= 0 asks for that token's log-probability in column 0."""

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        """Row targets[i] continues from what row origins[i] held before the call."""

    def free(self, slots: Sequence[int]) -> None:
        """Forget the rows."""


class Bursting(Backend, Protocol):
    """A backend that can let rows read the likeliest tokens they chose, up to `end`, without coming back in between."""

    end: int

    def burst(self, slots: Sequence[int], tokens: Sequence[int], steps: int) -> list[StepOutput]:
        """`steps` greedy steps of each row; what follows its `end` means nothing."""


class Flight(Protocol):
    """Steps that a device is computing."""

    def outputs(self) -> list[StepOutput]:
        """What each step brought; waits for it."""


class Launching(Bursting, Protocol):
    """A backend that computes beside the host, and encodes newcomers beside the steps of others."""

    def launch(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int], steps: int = 1,
        room: int = 0,
    ) -> Flight:
        """Begin a step, or a burst of `steps`. Sources of up to `room` tokens may be prefilled into other slots before the
        outputs are asked for; nothing else may be done before that."""


def bursts(backend: object) -> TypeGuard[Bursting]:
    """Whether the backend is `Bursting`. Asked at every step, where an isinstance() of a protocol takes 50 us."""
    return hasattr(backend, "burst")


def launches(backend: object) -> TypeGuard[Launching]:
    """Whether the backend is `Launching`."""
    return hasattr(backend, "launch")


class Search(Protocol):
    """One sentence being decoded. `tokens` and `forced` have one entry per live row; `width` rows at most are ever live;
    `candidates` is how many likeliest tokens `advance` needs per row. `again` asks whoever runs the search to start its
    first row anew from the source, to clear it, and to tell the search nothing before that."""

    again: bool

    @property
    def width(self) -> int: ...

    @property
    def candidates(self) -> int: ...

    @property
    def tokens(self) -> list[int]: ...

    @property
    def forced(self) -> list[int]: ...

    @property
    def done(self) -> bool: ...

    @property
    def trace(self) -> list[TraceStep]: ...

    @property
    def written(self) -> list[int]:
        """Tokens so far; a beam has none before it ends."""

    def advance(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> list[int]:
        """Take the candidates (rows, C); returns the parent row of each row of the next step, none when done."""

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """Finished targets, best first."""

    def unfinished(self) -> list[list[int]]:
        """Tokens of every row that may still become the best target; none where a finished one may be it."""


def new_search(
    options: DecodingOptions, *, start: int, end: int, source: Sequence[int], max_length: int
) -> Search:
    """A search for one source (its ids) under `options`; `max_length` is the model's own bound."""
    if options.loop_guard and options.target is None:
        plain = _unguarded(options)
        make = partial(new_search, start=start, end=end, source=source, max_length=max_length)
        return GuardedSearch(make, plain, source)
    wanted = options.max_length if options.max_length is not None else len(source) + 50
    limit = min(wanted, max_length)
    if options.target is not None:
        forced = (*options.target, end)
        if len(forced) > max_length:
            raise ValueError(f"The target has {len(options.target)} tokens; the model reads at most {max_length - 1}.")
        return GreedySearch(options, start=start, end=end, limit=len(forced), forced=forced)
    if len(options.prefix) >= max_length:
        raise ValueError(f"The prefix has {len(options.prefix)} tokens; the model writes at most {max_length - 1}.")
    limit = max(limit, len(options.prefix) + 1)
    if options.beam_size == 1:
        return GreedySearch(options, start=start, end=end, limit=limit, forced=options.prefix)
    return BeamSearch(options, start=start, end=end, limit=limit)


@lru_cache(maxsize=64)
def _unguarded(options: DecodingOptions) -> DecodingOptions:
    return dataclasses.replace(options, loop_guard=False)


def normalize(total: float, length: int, options: DecodingOptions) -> float:
    """Summed log-probability over the length penalty; `length` counts the end of sentence."""
    if options.normalization == "gnmt":
        return total / float(((5 + length) / 6) ** options.length_penalty)
    return total / float(length**options.length_penalty)


_TRACED = 8
"""Candidates of each row that a trace keeps."""


class GreedySearch:
    """The likeliest token at every step; forced tokens first."""

    def __init__(
        self, options: DecodingOptions, *, start: int, end: int, limit: int, forced: Sequence[int] = ()
    ) -> None:
        self._options, self._end, self._limit, self._prefix = options, end, limit, tuple(forced)
        self._ngram = 0 if options.target is not None else options.no_repeat_ngram_size
        # With one candidate a backend may run ahead; a token that is banned has to be seen before the next one is read.
        self._fewest = max(_TRACED if options.trace else 1, 2 if self._ngram else 1)
        self.width, self.candidates, self.again = 1, self._fewest, False
        self.tokens = [start]
        self.forced = [self._prefix[0] if self._prefix else -1]
        self.done = False
        self.trace: list[TraceStep] = []
        self._banned: set[int] = set()
        self._written: list[int] = []
        self._scores: list[float] = []

    @property
    def written(self) -> list[int]:
        return self._written

    def unfinished(self) -> list[list[int]]:
        return [self._written]

    def advance(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> list[int]:
        best = 0
        while self._banned and int(ids[0, best]) in self._banned:  # the end of sentence never is
            best += 1
        token, score = int(ids[0, best]), float(scores[0, best])
        self._scores.append(score)
        step = len(self._scores)
        self.done = token == self._end or step >= self._limit
        if token != self._end:
            self._written.append(token)
        if self._options.trace:
            self._record(ids, scores, token)
        self.tokens = [token]
        self.forced = [self._prefix[step] if step < len(self._prefix) else -1]
        if self._ngram:
            self._banned = banned(self._written, self._ngram) if self.forced[0] < 0 else set()
            self.candidates = self._fewest + len(self._banned)
        return [] if self.done else [0]

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        stopped = len(self._scores) > len(self._written)
        score = normalize(math.fsum(self._scores), max(1, len(self._scores)), self._options)
        reason = "stop" if stopped else "length"
        return (Hypothesis(tuple(self._written), tuple(self._scores), score, reason),)  # type: ignore[arg-type]

    def _record(self, ids: NDArray[np.int64], scores: NDArray[np.float32], token: int) -> None:
        entry = (0, token, math.fsum(self._scores))
        ended = token == self._end
        self.trace.append(TraceStep(_candidates(ids, scores), () if ended else (entry,), (entry,) if ended else ()))


@dataclass(slots=True)
class _Beam:
    """One live row: tokens, their log-probabilities, and the sum."""

    tokens: tuple[int, ...]
    scores: tuple[float, ...]
    total: float


class BeamSearch:
    """The `beam_size` best prefixes at every step. A candidate that ends the sentence, or the last step, is kept if it
    ranks among the first `beam_size`. The search stops when as many hypotheses are finished and no live row, at its
    present length, beats the worst of them (Hugging Face's default rule); with `early_stopping` as soon as as many are
    finished (CTranslate2's rule)."""

    def __init__(self, options: DecodingOptions, *, start: int, end: int, limit: int) -> None:
        self._options, self._end, self._limit = options, end, limit
        self.width, self.again = options.beam_size, False
        self._fewest = max(2 * options.beam_size, _TRACED if options.trace else 0)
        self.candidates = self._fewest
        self.tokens = [start]
        self.forced = [options.prefix[0] if options.prefix else -1]
        self.done = False
        self.trace: list[TraceStep] = []
        self._live = [_Beam((), (), 0.0)]
        self._banned: list[set[int]] = []
        self._finished: list[Hypothesis] = []

    @property
    def written(self) -> list[int]:
        return []

    def unfinished(self) -> list[list[int]]:
        return [] if self._finished else [list(beam.tokens) for beam in self._live]

    def advance(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> list[int]:
        step = len(self._live[0].tokens)
        last = step + 1 >= self._limit
        forced = step < len(self._options.prefix)
        ranked = self._rank(ids[:, :1] if forced else ids, scores[:, :1] if forced else scores)
        parents: list[int] = []
        live: list[_Beam] = []
        ended: list[tuple[int, int, float]] = []
        for rank, (total, parent, token, score) in enumerate(ranked):
            row = self._live[parent]
            if token == self._end and not forced:
                if rank < self.width:
                    ended.append((parent, token, total))
                    self._finish(_Beam(row.tokens, (*row.scores, score), total), "stop")
                continue
            if len(live) < self.width:
                live.append(_Beam((*row.tokens, token), (*row.scores, score), total))
                parents.append(parent)
                if last and rank < self.width:
                    self._finish(live[-1], "length")
        if self._options.trace:
            chosen = tuple((p, beam.tokens[-1], beam.total) for p, beam in zip(parents, live, strict=True))
            self.trace.append(TraceStep(_candidates(ids, scores), chosen, tuple(ended)))
        return self._next(live, parents, step + 1)

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self._finished[: self._options.hypotheses])

    def _rank(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> list[tuple[float, int, int, float]]:
        """The 2 k best continuations: (summed log-probability, parent row, token, its log-probability)."""
        totals = np.array([beam.total for beam in self._live])[:, None] + scores.astype(np.float64)
        for row, tokens in enumerate(self._banned):
            if tokens:
                totals[row, np.isin(ids[row], list(tokens))] = -np.inf
        order = np.argsort(-totals, axis=None, kind="stable")[: 2 * self.width]
        width = ids.shape[1]
        return [
            (float(totals.flat[i]), int(i) // width, int(ids.flat[i]), float(scores.flat[i]))
            for i in order.tolist()
            if totals.flat[i] > -np.inf
        ]

    def _next(self, live: list[_Beam], parents: list[int], step: int) -> list[int]:
        self.done = not live or step >= self._limit or self._settled(live, step)
        if self.done:
            return []
        self._live = live
        self.tokens = [beam.tokens[-1] for beam in live]
        prefix = self._options.prefix
        self.forced = [prefix[step] if step < len(prefix) else -1] * len(live)
        if size := self._options.no_repeat_ngram_size:
            self._banned = [banned(beam.tokens, size) if step >= len(prefix) else set() for beam in live]
            self.candidates = self._fewest + max(map(len, self._banned))
        return parents

    def _settled(self, live: list[_Beam], step: int) -> bool:
        if len(self._finished) < self.width:
            return False
        if self._options.early_stopping:
            return True
        best = max(beam.total for beam in live)
        return self._finished[-1].score >= normalize(best, step, self._options)

    def _finish(self, beam: _Beam, reason: str) -> None:
        score = normalize(beam.total, max(1, len(beam.scores)), self._options)
        self._finished.append(Hypothesis(beam.tokens, beam.scores, score, reason))  # type: ignore[arg-type]
        self._finished.sort(key=lambda hypothesis: -hypothesis.score)
        del self._finished[self.width :]


def _candidates(ids: NDArray[np.int64], scores: NDArray[np.float32]) -> tuple[tuple[tuple[int, float], ...], ...]:
    return tuple(
        tuple(zip(row_ids[:_TRACED], row_scores[:_TRACED], strict=True))
        for row_ids, row_scores in zip(ids.tolist(), scores.tolist(), strict=True)
    )


@dataclass(slots=True)
class _Running:
    number: int
    search: Search
    slots: list[int]
    steps: int = 0


def translate(
    backend: Backend,
    sources: Sequence[Sequence[int]],
    options: DecodingOptions,
    *,
    start: int,
    end: int,
    max_length: int,
    on_done: Callable[[int], None] = lambda number: None,
) -> list[tuple[Hypothesis, ...]]:
    """Decode every source (ids with tag and end) under the same options; sentences join the batch as slots fall free.

    Returns the hypotheses in the order of the sources. `on_done` is told the number of each finished source.
    """
    searches = [
        new_search(options, start=start, end=end, source=source, max_length=max_length) for source in sources
    ]
    waiting = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # the longest are taken first, from the end
    free = list(range(backend.slots))
    running: list[_Running] = []
    while waiting or running:
        newcomers: list[_Running] = []
        while waiting and len(free) >= searches[waiting[-1]].width:
            number = waiting.pop()
            newcomers.append(_Running(number, searches[number], [free.pop() for _ in range(searches[number].width)]))
        if not newcomers and not running:
            raise ValueError(f"A beam of {searches[waiting[-1]].width} needs as many slots; there are {backend.slots}.")
        longest = max((len(sources[newcomer.number]) for newcomer in newcomers), default=0)
        beside = launches(backend) and bool(running)
        outputs = _begin(backend, running, end, max_length, longest) if beside else None
        if newcomers:
            backend.prefill(
                [sources[n.number] for n in newcomers], [n.slots[0] for n in newcomers],
                [options.masked_heads for _ in newcomers] if options.masked_heads else (),
            )
        if outputs is None:
            running.extend(newcomers)
            newcomers = []
            outputs = _begin(backend, running, end, max_length)
        for output in outputs():
            _take(backend, running, output)
        running.extend(newcomers)
        _start_anew(backend, [item for item in running if item.search.again], sources, options)
        for finished in [item for item in running if item.search.done]:
            backend.free(finished.slots)
            free.extend(finished.slots)
            on_done(finished.number)
        running = [item for item in running if not item.search.done]
    return [search.hypotheses() for search in searches]


_BURST = 4
"""Steps that a bursting backend runs before finished sentences make room for others."""


def _begin(
    backend: Backend, running: list[_Running], end: int, max_length: int, room: int = 0
) -> Callable[[], list[StepOutput]]:
    """Begin one step of every running search, or a few where nothing but the likeliest token is asked for; what is
    returned waits for them."""
    rows = [slot for item in running for slot in item.slots[: len(item.search.tokens)]]
    tokens = [token for item in running for token in item.search.tokens]
    forced = [token for item in running for token in item.search.forced]
    candidates = max(item.search.candidates for item in running)
    steps = 1
    if candidates == 1 and max(forced) < 0 and bursts(backend) and backend.end == end:
        steps = max(1, min(_BURST, max_length - max(item.steps for item in running)))
    if launches(backend):
        return backend.launch(rows, tokens, candidates, forced, steps, room).outputs
    if steps > 1 and bursts(backend):
        return partial(backend.burst, rows, tokens, steps)
    return lambda: [backend.step(rows, tokens, candidates, forced)]


def _start_anew(
    backend: Backend, running: list[_Running], sources: Sequence[Sequence[int]], options: DecodingOptions
) -> None:
    """Start the rows of searches that begin again."""
    if running:
        backend.free([slot for item in running for slot in item.slots])
        masked = [options.masked_heads for _ in running] if options.masked_heads else ()
        backend.prefill([sources[item.number] for item in running], [item.slots[0] for item in running], masked)
    for item in running:
        item.search.again, item.steps = False, 0


def _take(backend: Backend, running: list[_Running], output: StepOutput) -> None:
    """Tell the searches that are not done what a step brought."""
    targets: list[int] = []
    origins: list[int] = []
    at = 0
    for item in running:
        begin, at = at, at + len(item.search.tokens)
        if item.search.done or item.search.again:
            continue
        item.steps += 1
        for row, parent in enumerate(item.search.advance(output.ids[begin:at], output.scores[begin:at])):
            if row != parent:
                targets.append(item.slots[row])
                origins.append(item.slots[parent])
    if targets:
        backend.reorder(targets, origins)
