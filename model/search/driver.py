"""Runs many searches on one backend. The library decodes with `translate`; the server's worker uses SearchDriver
itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.config import ModelConfig
from model.model_folder import FolderError, Generation
from model.search.backend_interface import (
    Backend,
    MaskedHeads,
    QueueingBackend,
    Restriction,
    StepOutput,
    supports_forced_steps,
    supports_multi_step,
    supports_queueing,
)
from model.search.beam import BeamSearch
from model.search.greedy import GreedySearch
from model.search.options import DEFAULT_GENERATION, DecodingOptions, Hypothesis
from model.search.search import Search

_MULTI_STEPS = 4
"""Greedy steps per call of a backend that supports multi-step: a finished sentence keeps its slots until the
call ends."""
_KNOWN_TOKENS = 128
"""Known tokens that a call reads, which takes about the time of as many rows: others wait for it."""
_TRIAL_TOKENS, _TRIAL_STEPS = 12, 4


def search_kind(options: DecodingOptions) -> type[Search]:
    """Returns the kind of search under `options`: greedy for a beam of 1 and for a given target."""
    return GreedySearch if options.beam_size == 1 or options.target is not None else BeamSearch


@dataclass(slots=True, eq=False)
class RunningSearch:
    """One sentence in the batch: its search, source ids, slots of its rows, the tokens that it may have, how many steps it
    has taken, and whose it is."""

    search: Search
    source: Sequence[int]
    slots: Sequence[int]
    masked_heads: MaskedHeads = ()
    restriction: Restriction = Restriction()
    steps: int = 0
    owner: Any = None


_Rows = tuple[RunningSearch, int, int]
"""A search, its first row in the output of a step, and the first one after it."""


@dataclass(frozen=True, slots=True)
class _Queued:
    """Steps that a backend has queued: how many steps each search will have taken then, its rows in their outputs, and the
    function that waits for the outputs."""

    taken: dict[RunningSearch, int]
    rows: list[_Rows]
    read: Callable[[], list[StepOutput]]


class SearchDriver:
    """Advances the searches of one backend together, each by one token or by a few.

    `end` is the end of sentence, `max_length` the longest target of the model, `forbidden` its tokens that are never
    written.
    """

    def __init__(self, backend: Backend, *, end: int, max_length: int, forbidden: Sequence[int] = ()) -> None:
        self.backend = backend
        self._max_length, self._forbidden = max_length, tuple(forbidden)
        self._multi_step = supports_multi_step(backend) and backend.end == end
        self._unread: _Queued | None = None

    def start(self, searches: Sequence[RunningSearch]) -> None:
        """Adds searches to the batch: encodes their sources as one batch."""
        if searches:
            masked = [item.masked_heads for item in searches]
            first_slots = [item.slots[0] for item in searches]
            restrictions = [item.restriction for item in searches]
            self.backend.prefill(
                [item.source for item in searches], first_slots, masked if any(masked) else (), restrictions
            )

    def step(self, running: Sequence[RunningSearch]) -> tuple[Sequence[RunningSearch], int]:
        """Advances `running`, which are searches of the batch that are not done; the others pause. Returns the searches that
        took steps, and how many.

        Where the backend queues steps, the outputs are read by the next call. Rows whose next token the device has chosen go
        on before the host has seen it: the call queues their next steps, with those of the rows that wait for the host, before
        it advances their searches. What a search does not need any more is discarded. After an error all searches have to be
        started again.
        """
        last, self._unread = self._unread, None  # also after an error
        if not supports_queueing(self.backend):
            return self._step_at_once(running)
        if last is None:
            self._unread = self._queue(self.backend, running, {}, ())
            return ((), 0) if self._unread is not None else self._step_at_once(running)
        outputs: list[StepOutput] = []
        waiting = {item for item in last.taken if self._needs_host(item)}
        if waiting:
            outputs = last.read()
            self._advance([rows for rows in last.rows if rows[0] in waiting], outputs[0])
        queued = self._queue(self.backend, running, last.taken, waiting)
        outputs = outputs or last.read()
        self._unread = queued
        others = [rows for rows in last.rows if rows[0] not in waiting]
        for output in outputs:
            self._advance(others, output)
        self._restart(last.taken)
        return tuple(last.taken), len(outputs)

    def _step_at_once(self, running: Sequence[RunningSearch]) -> tuple[Sequence[RunningSearch], int]:
        """Advances searches by steps whose outputs it waits for."""
        unknown = self._read_known(running)
        outputs = self._run(unknown) if unknown else []
        rows = _rows(unknown)
        for output in outputs:
            self._advance(rows, output)
        self._restart(running)
        return running, max(1, len(outputs))

    def stop(self, item: RunningSearch) -> None:
        """Removes a search, done or not; its slots are free afterwards."""
        self.backend.free(item.slots, broken=not item.search.finite)
        item.slots = ()

    def _read_known(self, running: Sequence[RunningSearch]) -> Sequence[RunningSearch]:
        """Advances searches whose next tokens are known by many of these tokens at once; where there are more in all, some
        wait for the next call. Returns the others."""
        backend = self.backend
        if not supports_forced_steps(backend):
            return running
        known: dict[RunningSearch, Sequence[int]] = {}
        others, room = [], _KNOWN_TOKENS
        for item in running:
            if item.search.forced[0] < 0 or len(tokens := item.search.known) < 2:
                others.append(item)
            elif room:
                known[item] = tokens[:room]
                room -= len(known[item])
        if not known:
            return running
        read = [(*item.search.tokens, *tokens[:-1]) for item, tokens in known.items()]
        scored = backend.forced_steps([item.slots[0] for item in known], read, list(known.values()))
        for (item, tokens), scores in zip(known.items(), scored, strict=True):
            search = item.search
            for token, score in zip(tokens, scores.tolist(), strict=True):
                if search.done or search.restart:
                    break
                item.steps += 1
                search.advance([[token]], [[score]])
        return others

    def _needs_host(self, item: RunningSearch) -> bool:
        """Returns whether the device cannot choose the next token of a search."""
        search = item.search
        return search.candidates != 1 + len(self._forbidden) or search.forced[0] >= 0

    def _queue(
        self,
        backend: QueueingBackend,
        running: Sequence[RunningSearch],
        last: dict[RunningSearch, int],
        read: Collection[RunningSearch],
    ) -> _Queued | None:
        """Queues the next step, or several where no search needs the host between two. `last` has the searches with queued
        steps, and how many each has taken then; but for those that are `read`, their tokens are on the device only. Does nothing
        where a row may be full then: the device writes to the next position of rows that pause, too."""
        ready = [item for item in running if not (item.search.restart or item.search.done)]
        if not ready:
            return None
        on_host = {item for item in ready if self._needs_host(item)}
        taken = {item: last.get(item, item.steps) for item in ready}
        longest = max([*taken.values(), *last.values()])
        steps = min(1 if on_host else _MULTI_STEPS, self._max_length - longest)
        if steps <= 0:
            return None
        slots = [slot for item in ready for slot in item.slots[: len(item.search.tokens)]]
        unread = last.keys() - read
        tokens = [-1 if item in unread else token for item in ready for token in item.search.tokens]
        forced = [token for item in ready for token in item.search.forced]
        candidates = [item.search.candidates if item in on_host else 1 for item in ready for _ in item.search.tokens]
        outputs = backend.queue_steps(slots, tokens, steps, self._forbidden, candidates, forced)
        return _Queued({item: taken[item] + steps for item in ready}, _rows(ready), outputs)

    def _run(self, running: Sequence[RunningSearch]) -> list[StepOutput]:
        """Computes the next step or steps of `running`."""
        backend = self.backend
        rows = [slot for item in running for slot in item.slots[: len(item.search.tokens)]]
        tokens = [token for item in running for token in item.search.tokens]
        forced = [token for item in running for token in item.search.forced]
        candidates = max([item.search.candidates for item in running])
        steps = 1
        if self._multi_step and candidates == 1 + len(self._forbidden) and max(forced) < 0:
            steps = max(1, min(_MULTI_STEPS, self._max_length - max([item.steps for item in running])))
        if steps > 1 and supports_multi_step(backend):
            return backend.multi_step(rows, tokens, steps, self._forbidden)
        return [backend.step(rows, tokens, candidates, forced)]

    def _advance(self, rows: Sequence[_Rows], output: StepOutput) -> None:
        """Passes their rows of the output of one step to the searches that are not done."""
        targets: list[int] = []
        origins: list[int] = []
        ids, scores = output.ids.tolist(), output.scores.tolist()
        for item, first, end in rows:
            search = item.search
            if search.done or search.restart or not item.slots:
                continue
            item.steps += 1
            for row, parent in enumerate(search.advance(ids[first:end], scores[first:end])):
                if row != parent:
                    targets.append(item.slots[row])
                    origins.append(item.slots[parent])
        if targets:
            self.backend.reorder(targets, origins)

    def _restart(self, searches: Collection[RunningSearch]) -> None:
        """Starts the rows of the searches that ask for it again from the source, but for those with queued steps."""
        queued = self._unread.taken if self._unread is not None else {}
        again = [item for item in searches if item.search.restart and item.slots and item not in queued]
        if again:
            self.backend.free([slot for item in again for slot in item.slots])
            self.start(again)
        for item in again:
            item.search.restart, item.steps = False, 0


def _rows(searches: Sequence[RunningSearch]) -> list[_Rows]:
    """Returns which rows of a step belong to each search."""
    rows, end = [], 0
    for item in searches:
        first, end = end, end + len(item.search.tokens)
        rows.append((item, first, end))
    return rows


def translate(
    backend: Backend,
    sources: Sequence[Sequence[int]],
    options: DecodingOptions | Sequence[DecodingOptions],
    *,
    start: int,
    end: int,
    max_length: int,
    generation: Generation = DEFAULT_GENERATION,
) -> list[tuple[Hypothesis, ...]]:
    """Decodes every source (ids with tag and end) under the same options, or each under its own. Sentences join the
    batch as slots become free, the longest first.

    Returns the hypotheses in the order of the sources. Raises ValueError where the backend has fewer slots than a beam
    needs, and for a prefix or target the model cannot read.
    """
    each = [options] * len(sources) if isinstance(options, DecodingOptions) else options
    searches = [
        search_kind(own)(own, start=start, end=end, source=source, max_length=max_length, generation=generation)
        for own, source in zip(each, sources, strict=True)
    ]
    driver = SearchDriver(backend, end=end, max_length=max_length, forbidden=generation.forbidden)
    waiting = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    free = list(range(backend.slots))
    running: dict[int, RunningSearch] = {}
    while waiting or running:
        newcomers: dict[int, RunningSearch] = {}
        while waiting and len(free) >= (width := searches[waiting[-1]].width):
            number = waiting.pop()
            slots = [free.pop() for _ in range(width)]
            own = each[number]
            newcomers[number] = RunningSearch(
                searches[number], sources[number], slots, own.masked_heads, own.restriction
            )
        if not newcomers and not running:
            raise ValueError(f"A beam of {searches[waiting[-1]].width} needs as many slots; there are {backend.slots}.")
        if newcomers:
            driver.start(list(newcomers.values()))
            running |= newcomers
        driver.step(list(running.values()))
        for number in [number for number, item in running.items() if item.search.done]:
            finished = running.pop(number)
            free.extend(finished.slots)
            driver.stop(finished)
    return [search.hypotheses() for search in searches]


def check_trial_sentence(backend: Backend, config: ModelConfig) -> None:
    """Translates the first tokens of one made-up sentence in slot 0. Raises FolderError unless all scores are
    finite: finite weights can still overflow when they are multiplied."""
    vocabulary = min(config.vocab_size, config.source_vocab_size or config.vocab_size)
    source = [*range(0, vocabulary, 1 + vocabulary // _TRIAL_TOKENS)][: config.max_length - 1]
    backend.prefill([[*source, min(config.eos_id, vocabulary - 1)]], [0])
    token = config.decoder_start_id
    try:
        for _ in range(min(_TRIAL_STEPS, config.max_length)):
            output = backend.step([0], [token], 1, [-1])
            if not np.isfinite(output.scores).all():
                raise FolderError("The weights give no finite scores for a trial sentence.")
            token = int(output.ids[0, 0])
    finally:
        backend.free([0])
