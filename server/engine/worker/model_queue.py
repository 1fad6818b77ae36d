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

    def admit(self, max_tokens: int, now: float, documents: bool) -> list[Sequence]:
        """Moves waiting sequences to the running ones, at most `max_tokens` padded source tokens of them, and with
        `documents` False only interactive ones. While interactive sequences run, documents are at most a part of these
        tokens, so that they are not delayed."""
        self.reserve.update(self.interactive_slots + self.waiting.interactive_slots, now)
        room = self._document_room() if documents else 0
        waiting = len(self.waiting) if room > 0 else self.waiting.interactive
        if self.running and len(self.free) < min(waiting, self.slots // _GROUP) and self.held < _MAX_HELD:
            self.held += 1
            return []
        self.held = 0
        if self.interactive_slots and not self.waiting.interactive:
            max_tokens //= _DOCUMENT_PREFILL
        admitted = self.waiting.take(len(self.free), max_tokens, room)
        for sequence in admitted:
            self.occupy(sequence)
        return admitted

    def preempt(self, now: float) -> list[Sequence]:
        """Puts documents back into the queue until the waiting interactive sequences have slots, and returns them. Only
        slots of the reserve are taken; the documents that have decoded least give theirs first, and start again."""
        self.reserve.update(self.interactive_slots + self.waiting.interactive_slots, now)
        missing = min(self.waiting.interactive_slots, self.reserve.slots) - len(self.free)
        excess = self.document_slots - (self.slots - self.reserve.slots)
        preempted: list[Sequence] = []
        if missing <= 0 or excess <= 0:
            return preempted
        documents = [sequence for sequence in self.running.values() if sequence.document]
        for sequence in sorted(documents, key=lambda sequence: sequence.steps):
            if missing <= 0 or excess <= 0:
                break
            self.vacate(sequence)
            sequence.slots, sequence.steps, sequence.first_token = (), 0, 0.0
            self.waiting.push(sequence, first=True)
            missing, excess = missing - sequence.width, excess - sequence.width
            preempted.append(sequence)
        return preempted

    def _document_room(self) -> int:
        """Returns the slots that documents may take: those outside the reserve, and always enough for one document; 0
        where the next document does not fit."""
        room = self.slots - self.reserve.slots - self.document_slots
        document = self.waiting.next_document()
        if document is None or document.width <= room:
            return room
        return 0 if self.document_slots else document.width

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
