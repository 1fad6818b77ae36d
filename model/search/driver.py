"""Runs many searches on one backend. The library decodes with `translate`; the server's worker uses SearchDriver
itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class SearchDriver:
    """Advances the searches of one backend together, each by one token or by a few.

    `end` is the end of sentence, `max_length` the longest target of the model, `forbidden` its tokens that are never
    written.
    """

    def __init__(self, backend: Backend, *, end: int, max_length: int, forbidden: Sequence[int] = ()) -> None:
        self.backend = backend
        self._max_length, self._forbidden = max_length, tuple(forbidden)
        self._multi_step = supports_multi_step(backend) and backend.end == end
        self._unread: dict[RunningSearch, int] = {}
        """The searches with queued steps, and how many steps each will have taken then; `_read` returns the outputs."""
        self._read: Callable[[], list[StepOutput]] | None = None

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

        Where the backend queues steps, those of greedy searches are read by the next call, after it has queued more; what a
        search does not need any more is discarded. After an error all searches have to be started again.
        """
        unread, read = self._unread, self._read
        unknown: Sequence[RunningSearch]
        self._unread, self._read = {}, None  # also after an error
        queued = self._queue(self.backend, running, unread) if supports_queueing(self.backend) else None
        if read is not None:
            running = unknown = tuple(unread)
            outputs = read()
        elif queued is not None:
            self._unread, self._read = queued
            return (), 0
        else:
            unknown = self._read_known(running)
            outputs = self._run(unknown) if unknown else []
        self._unread, self._read = queued or ({}, None)
        for output in outputs:
            self._advance(unknown, output)
        self._restart([item for item in running if item.search.restart and item.slots and item not in self._unread])
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

    def _queue(
        self, backend: QueueingBackend, running: Sequence[RunningSearch], unread: dict[RunningSearch, int]
    ) -> tuple[dict[RunningSearch, int], Callable[[], list[StepOutput]]] | None:
        """Queues the next steps of greedy searches; the tokens of those of `unread` are on the device only. Returns them as
        `_unread` and `_read`. Does nothing where a search needs the host between two steps, and where a row may be full
        then: the device writes to the next position of rows that pause, too."""
        ready = {item: unread.get(item, item.steps) for item in running if not item.search.restart}
        candidates = 1 + len(self._forbidden)
        if not ready or any(item.search.candidates != candidates or item.search.forced[0] >= 0 for item in ready):
            return None
        steps = min(_MULTI_STEPS, self._max_length - max([*ready.values(), *unread.values()]))
        if steps <= 0:
            return None
        tokens = [-1 if item in unread else item.search.tokens[0] for item in ready]
        read = backend.queue_steps([item.slots[0] for item in ready], tokens, steps, self._forbidden)
        return {item: taken + steps for item, taken in ready.items()}, read

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

    def _advance(self, running: Sequence[RunningSearch], output: StepOutput) -> None:
        """Passes the output of one step to every search that is not done."""
        targets: list[int] = []
        origins: list[int] = []
        end = 0
        ids, scores = output.ids.tolist(), output.scores.tolist()
        for item in running:
            search = item.search
            begin, end = end, end + len(search.tokens)
            if search.done or search.restart:
                continue
            item.steps += 1
            for row, parent in enumerate(search.advance(ids[begin:end], scores[begin:end])):
                if row != parent:
                    targets.append(item.slots[row])
                    origins.append(item.slots[parent])
        if targets:
            self.backend.reorder(targets, origins)

    def _restart(self, searches: Sequence[RunningSearch]) -> None:
        """Starts the rows of these searches again from the source."""
        if searches:
            self.backend.free([slot for item in searches for slot in item.slots])
            self.start(searches)
        for item in searches:
            item.search.restart, item.steps = False, 0


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
