"""The jobs of one loaded model: who waits, who runs, and which slots are free."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from server.engine.worker.document_share import InteractiveReserve
from server.engine.worker.fair_queue import FairQueue
from server.engine.worker.sequence import Sequence

_GROUP = 8
"""While sequences run and more wait than there are free slots, at least slots / _GROUP are admitted together."""
_MAX_HELD = 2
"""Steps for which an admission may be delayed to form such a group."""

_DOCUMENT_PREFILL = 4
"""While interactive sequences run, documents are encoded with a fraction 1 / _DOCUMENT_PREFILL of the usual tokens."""


@dataclass(slots=True, eq=False)
class ModelQueue:
    """One loaded model with `slots` slots. `running` maps job ids to sequences. `jobs` counts all jobs that are not
    answered, attention requests included. A `closing` queue accepts no further jobs."""

    id: int
    model: str
    slots: int
    waiting: FairQueue = field(default_factory=FairQueue)
    free: list[int] = field(default_factory=list)
    running: dict[int, Sequence] = field(default_factory=dict)
    jobs: int = 0
    closing: bool = False
    held: int = 0
    document_slots: int = 0
    """Slots in which documents run."""
    interactive_slots: int = 0
    """Slots in which interactive sequences run."""
    reserve: InteractiveReserve = field(init=False)

    def __post_init__(self) -> None:
        self.free = list(range(self.slots))
        self.reserve = InteractiveReserve(self.slots)

    def admit(self, max_tokens: int, now: float, documents: bool) -> list[list[Sequence]]:
        """Moves waiting sequences to the running ones, in up to two groups with at most `max_tokens` padded source tokens
        each: interactive sequences, and documents unless `documents` is False. While interactive sequences run,
        documents have a part of these tokens, so that they cause no long pause."""
        self.reserve.update(self.interactive_slots + self.waiting.interactive_slots, now)
        kept = self._document_room(documents)
        waiting = len(self.waiting) if documents else self.waiting.number(documents=False)
        usable = len(self.free) - (0 if documents else kept)
        if self.running and usable < min(waiting, self.slots // _GROUP) and self.held < _MAX_HELD:
            self.held += 1
            return []
        self.held = 0
        groups = [self.waiting.take(len(self.free) - kept, max_tokens, documents=False)]
        self._occupy_all(groups[0])
        if documents:
            tokens = max_tokens // _DOCUMENT_PREFILL if self.interactive_slots else max_tokens
            groups.append(self.waiting.take(min(kept, len(self.free)), tokens, documents=True))
            self._occupy_all(groups[1])
        return [group for group in groups if group]

    def next_batch(self, documents: bool) -> list[Sequence]:
        """Returns the running sequences that decode next; with `documents` False only interactive ones. Documents with
        beams decode alone instead of beside greedy sentences, of which a backend takes several steps in one call."""
        interactive = [sequence for sequence in self.running.values() if not sequence.document]
        if not documents:
            return interactive
        chosen = [sequence for sequence in self.running.values() if sequence.document]
        apart = chosen and _greedy(interactive) and not _greedy(chosen)
        return chosen if apart else interactive + chosen

    def preempt(self, now: float) -> list[Sequence]:
        """Puts documents back into the queue until the waiting interactive sequences have slots, and returns them. Only
        slots of the reserve are taken; the documents that have decoded least give theirs first, and start again. The one
        that has decoded most keeps its slots, so that it finishes."""
        self.reserve.update(self.interactive_slots + self.waiting.interactive_slots, now)
        missing = min(self.waiting.interactive_slots, self.reserve.slots) - len(self.free)
        excess = self.document_slots - (self.slots - self.reserve.slots)
        preempted: list[Sequence] = []
        if missing <= 0 or excess <= 0:
            return preempted
        documents = [sequence for sequence in self.running.values() if sequence.document]
        for sequence in sorted(documents, key=lambda sequence: sequence.steps)[:-1]:
            if missing <= 0 or excess <= 0:
                break
            self.vacate(sequence)
            sequence.reset()
            self.waiting.push(sequence, first=True)
            missing, excess = missing - sequence.width, excess - sequence.width
            preempted.append(sequence)
        return preempted

    def _document_room(self, documents: bool) -> int:
        """Returns how many slots are kept for the documents that wait: those outside the reserve, and with `documents`
        enough for one document where none runs. It is 0 where the next document, or the next interactive sequence
        beside them, does not fit."""
        if not (width := self.waiting.next_width(documents=True)):
            return 0
        room = self.slots - self.reserve.slots - self.document_slots
        if documents and not self.document_slots:
            room = max(room, width)
        elif self.waiting.next_width(documents=False) > self.slots - self.document_slots - room:
            return 0
        return room if width <= room else 0

    def _occupy_all(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            self.occupy(sequence)

    def occupy(self, sequence: Sequence) -> None:
        """Gives a sequence its slots."""
        sequence.slots = tuple(heapq.heappop(self.free) for _ in range(sequence.width))
        sequence.running = True
        self.running[sequence.id] = sequence
        self._count(sequence, sequence.width)

    def vacate(self, sequence: Sequence) -> None:
        """Frees the slots of a running sequence."""
        sequence.running = False
        del self.running[sequence.id]
        self._count(sequence, -sequence.width)
        for slot in sequence.slots:
            heapq.heappush(self.free, slot)

    def _count(self, sequence: Sequence, slots: int) -> None:
        if sequence.document:
            self.document_slots += slots
        else:
            self.interactive_slots += slots


def _greedy(sequences: list[Sequence]) -> bool:
    return all(sequence.width == 1 for sequence in sequences)
