"""Runs many searches on one backend: `translate` for the library, SearchDriver for the server's
worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from model.config import ModelConfig
from model.model_folder import FolderError, Generation
from model.search.backend_interface import (
    Backend,
    QueueingBackend,
    StepOutput,
    supports_forced_steps,
    supports_multi_step,
    supports_queueing,
)
from model.search.beam import BeamSearch, advance_beams
from model.search.greedy import GreedySearch
from model.search.options import DEFAULT_GENERATION, DecodingOptions, Hypothesis
from model.search.search import Search

_MULTI_STEPS = 4
"""Greedy steps per call of a backend with multi-step: a finished sentence keeps its slots until the
call ends."""
_KNOWN_TOKENS = 128
"""Most known tokens that a call reads, which takes as long as that number of rows: others wait for
it. A search may have less `room`."""
_TRIAL_TOKENS, _TRIAL_STEPS = 12, 4


def search_kind(options: DecodingOptions) -> type[GreedySearch | BeamSearch]:
    """Returns the kind of search: greedy for a beam of 1 and for a given target."""
    return GreedySearch if options.beam_size == 1 or options.target is not None else BeamSearch


@dataclass(slots=True)
class _Batch:
    """The rows of a step: their slots, tokens to read, forced tokens (-1 for none), and numbers of
    candidates. `chosen` has the searches whose next tokens a device can choose, `others` those that
    need the host after each step, both with their rows. `beams` has beams by width; their rows come
    last, in this order. `read` waits for the outputs of queued steps, after which the `longest` row
    has that number of tokens."""

    searches: Sequence[Search]
    slots: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    forced: list[int] = field(default_factory=list)
    candidates: list[int] = field(default_factory=list)
    chosen: list[tuple[GreedySearch, int]] = field(default_factory=list)
    others: list[tuple[Search, int]] = field(default_factory=list)
    beams: dict[int, list[BeamSearch]] = field(default_factory=dict)
    read: Callable[[], list[StepOutput]] = list
    longest: int = 0


class SearchDriver:
    """Advances the searches of one backend together, each by one token or by a few. `forbidden` are
    the model's tokens that are never written."""

    def __init__(
        self, backend: Backend, config: ModelConfig, forbidden: Sequence[int] = ()
    ) -> None:
        self.backend = backend
        self._max_length, self._forbidden = config.max_length, tuple(forbidden)
        self._multi_step = supports_multi_step(backend) and backend.end == config.eos_id
        self._unread: _Batch | None = None

    def start(self, searches: Sequence[Search]) -> None:
        """Adds searches to the batch: encodes their sources as one batch, in their `slots`."""
        if searches:
            masked = [search.options.masked_heads for search in searches]
            first_slots = [search.slots[0] for search in searches]
            restrictions = [search.options.restriction for search in searches]
            self.backend.prefill(
                [search.source for search in searches],
                first_slots,
                masked if any(masked) else (),
                restrictions,
            )

    def step(self, running: Sequence[Search]) -> tuple[Sequence[Search], int]:
        """Advances `running`, searches of the batch that are not done; the others pause. Returns
        the searches that took steps, and how many.

        If the backend queues steps, the next call reads the outputs. Rows whose next token the
        device has chosen continue before the host has seen it: the call queues their next steps,
        with those of the rows that wait for the host, before it advances their searches. What a
        search does not need any more is discarded. After an error all searches have to be started
        again.
        """
        last, self._unread = self._unread, None  # also after an error
        if not supports_queueing(self.backend):
            return self._step_at_once(running)
        if last is None:
            self._unread = self._queue(self.backend, running, 0)
            return ((), 0) if self._unread is not None else self._step_at_once(running)
        outputs: list[StepOutput] = []
        if last.others or last.beams:
            outputs = last.read()
            self._advance(last.others, last.beams, outputs[0])
        for search in chain([search for search, _ in last.others], *last.beams.values()):
            search.queued = 0
        queued = self._queue(self.backend, running, last.longest)
        outputs = outputs or last.read()
        self._unread = queued
        _extend(last.chosen, outputs)
        for search, _ in last.chosen:
            search.queued -= len(outputs)
        self._restart(last.searches)
        return last.searches, len(outputs)

    def _step_at_once(self, running: Sequence[Search]) -> tuple[Sequence[Search], int]:
        unknown = self._read_known(running)
        outputs = self._run(self._gather(unknown)) if unknown else []
        self._restart(running)
        return running, max(1, len(outputs))

    def stop(self, search: Search) -> None:
        """Removes a search, done or not, and frees its slots."""
        self.backend.free(search.slots, broken=not search.finite)
        search.slots = ()

    def _read_known(self, running: Sequence[Search]) -> Sequence[Search]:
        """Advances searches whose next tokens are known by many of these at once; beyond
        _KNOWN_TOKENS they wait for the next call. Returns the others."""
        backend = self.backend
        if not supports_forced_steps(backend):
            return running
        known: list[tuple[Search, Sequence[int]]] = []
        others, room = [], _KNOWN_TOKENS
        for search in running:
            if search.forced < 0 or len(tokens := search.known) < 2:
                others.append(search)
            elif room:
                known.append((search, tokens[: min(room, search.room)]))
                room -= len(known[-1][1])
        if not known:
            return running
        read = [(*search.tokens, *tokens[:-1]) for search, tokens in known]
        scored = backend.forced_steps(
            [search.slots[0] for search, _ in known], read, [tokens for _, tokens in known]
        )
        for (search, tokens), scores in zip(known, scored, strict=True):
            for token, score in zip(tokens, scores.tolist(), strict=True):
                if not (search.done or search.restart):
                    search.advance((token,), (score,))
        return others

    def _gather(self, searches: Sequence[Search]) -> _Batch:
        """Returns the rows of the next step. A row with queued steps reads the token that the
        device has chosen."""
        batch, alone = _Batch(searches), 1 + len(self._forbidden)
        slots, tokens, forced, candidates = (
            batch.slots,
            batch.tokens,
            batch.forced,
            batch.candidates,
        )
        for search in searches:
            if (
                search.candidates == alone
                and search.forced < 0
                and isinstance(search, GreedySearch)
            ):
                batch.chosen.append((search, len(slots)))
                tokens.append(-1 if search.queued else search.tokens[0])
                candidates.append(1)
            elif search.forced < 0 and isinstance(search, BeamSearch):
                batch.beams.setdefault(search.width, []).append(search)
                continue
            else:
                batch.others.append((search, len(slots)))
                tokens.append(search.tokens[0])
                candidates.append(search.candidates)
            slots.append(search.slots[0])
            forced.append(search.forced)
        for beams in batch.beams.values():
            for search in beams:
                slots += search.slots[: len(search.tokens)]
                tokens += search.tokens
            candidates += [max([search.candidates for search in beams])] * (
                len(slots) - len(candidates)
            )
        forced += [-1] * (len(slots) - len(forced))
        return batch

    def _queue(
        self, backend: QueueingBackend, running: Sequence[Search], longest: int
    ) -> _Batch | None:
        """Queues the next step, or several if no search needs the host between two. Does nothing if
        a row may be full then, also the `longest` of those queued last: the device writes to the
        next position of rows that pause, too."""
        ready = [search for search in running if not (search.restart or search.done)]
        if not ready:
            return None
        batch = self._gather(ready)
        own = max([search.steps + search.queued for search in ready])
        steps = min(
            1 if batch.others or batch.beams else _MULTI_STEPS, self._max_length - max(own, longest)
        )
        if steps <= 0:
            return None
        batch.longest = own + steps
        batch.read = backend.queue_steps(
            batch.slots, batch.tokens, steps, self._forbidden, batch.candidates, batch.forced
        )
        for search in ready:
            search.queued += steps
        return batch

    def _run(self, batch: _Batch) -> list[StepOutput]:
        """Computes the next step or steps of searches, and advances them."""
        backend = self.backend
        if (
            self._multi_step
            and len(batch.chosen) == len(batch.searches)
            and supports_multi_step(backend)
        ):
            steps = min(
                _MULTI_STEPS, self._max_length - max([search.steps for search in batch.searches])
            )
            if steps > 1:
                outputs = backend.multi_step(batch.slots, batch.tokens, steps, self._forbidden)
                _extend(batch.chosen, outputs)
                return outputs
        candidates = max(*batch.candidates, 1 + len(self._forbidden) if batch.chosen else 1)
        output = backend.step(batch.slots, batch.tokens, candidates, batch.forced)
        if self._forbidden:
            self._advance([*batch.others, *batch.chosen], batch.beams, output)
        else:
            self._advance(batch.others, batch.beams, output)
            _extend(batch.chosen, [output])
        return [output]

    def _advance(
        self,
        searches: Sequence[tuple[Search, int]],
        beams: Mapping[int, Sequence[BeamSearch]],
        output: StepOutput,
    ) -> None:
        """Passes the rows of one step's output to searches that are not done."""
        for search, first in searches:
            if search.slots:
                search.advance(output.ids[first].tolist(), output.scores[first].tolist())
        targets: list[int] = []
        origins: list[int] = []
        first = len(output.ids) - sum(
            [len(search.tokens) for group in beams.values() for search in group]
        )
        for group in beams.values():
            rows = slice(first, first := first + sum([len(search.tokens) for search in group]))
            for search, kept in zip(
                group, advance_beams(group, output.ids[rows], output.scores[rows]), strict=True
            ):
                if slots := search.slots:  # else it was released meanwhile
                    targets += slots[: len(kept)]
                    origins += map(slots.__getitem__, kept)
        moves = [move for move in zip(targets, origins, strict=True) if move[0] != move[1]]
        if moved := [*zip(*moves, strict=True)]:
            self.backend.reorder(*moved)

    def _restart(self, searches: Sequence[Search]) -> None:
        """Starts the searches with `restart` again from the source, except those with queued
        steps."""
        again = [
            search for search in searches if search.restart and search.slots and not search.queued
        ]
        if again:
            self.backend.free([slot for search in again for slot in search.slots])
            self.start(again)
        for search in again:
            search.begin()


def _extend(chosen: Sequence[tuple[GreedySearch, int]], outputs: Sequence[StepOutput]) -> None:
    """Passes the tokens that the device has chosen to searches, each with its row."""
    if chosen:
        ids, scores = outputs[0].ids[:, :1], outputs[0].scores[:, :1]
        if len(outputs) > 1:
            ids = np.concatenate([output.ids[:, :1] for output in outputs], axis=1)
            scores = np.concatenate([output.scores[:, :1] for output in outputs], axis=1)
        tokens, numbers = ids.tolist(), scores.tolist()
        for search, row in chosen:
            if search.slots and not (search.done or search.restart):
                search.extend(tokens[row], numbers[row])


def translate(
    backend: Backend,
    sources: Sequence[Sequence[int]],
    options: DecodingOptions | Sequence[DecodingOptions],
    config: ModelConfig,
    generation: Generation = DEFAULT_GENERATION,
) -> list[tuple[Hypothesis, ...]]:
    """Decodes every source (ids with tag and end) under the same options, or each under its own.
    Sentences join the batch as slots become free, the longest first.

    Returns the hypotheses in the order of the sources. Raises ValueError if the backend has fewer
    slots than a beam needs, and for a prefix or target the model cannot read.
    """
    own_options = [options] * len(sources) if isinstance(options, DecodingOptions) else options
    searches = [
        search_kind(own)(own, config, source, generation)
        for own, source in zip(own_options, sources, strict=True)
    ]
    driver = SearchDriver(backend, config, generation.forbidden)
    waiting = sorted(searches, key=lambda search: len(search.source))
    free = list(range(backend.slots))
    running: list[Search] = []
    while waiting or running:
        newcomers: list[Search] = []
        while waiting and len(free) >= (width := waiting[-1].width):
            newcomers.append(waiting.pop())
            newcomers[-1].slots = [free.pop() for _ in range(width)]
        if not newcomers and not running:
            raise ValueError(
                f"A beam of {waiting[-1].width} needs as many slots; there are {backend.slots}."
            )
        driver.start(newcomers)
        running += newcomers
        driver.step(running)
        for search in running:
            if search.done:
                free.extend(search.slots)
                driver.stop(search)
        running = [search for search in running if not search.done]
    return [search.hypotheses() for search in searches]


def check_trial_sentence(backend: Backend, config: ModelConfig) -> None:
    """Translates the first tokens of a made-up sentence in slot 0. Raises FolderError unless all
    scores are finite: finite weights can still overflow when they are multiplied."""
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
