"""The jobs of one loaded model: which wait, which run, and which slots are free."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from server.engine.worker.fair_queue import FairQueue
from server.engine.worker.sequence import Sequence

_DOCUMENT_SLOTS, _DOCUMENT_SLOTS_BESIDE = 3 / 4, 1 / 4
"""Documents take this part of the slots, or while interactive sequences wait the smaller one."""


@dataclass(slots=True, eq=False)
class ModelQueue:
    """One loaded model with `slots` slots. `running` maps job ids to sequences."""

    model: str
    slots: int
    interactive: FairQueue = field(init=False)
    documents: FairQueue = field(init=False)
    free: list[int] = field(default_factory=list)
    running: dict[int, Sequence] = field(default_factory=dict)
    document_slots: int = 0
    """Slots in which documents run."""

    def __post_init__(self) -> None:
        self.free = list(range(self.slots))
        self.interactive, self.documents = FairQueue(self.slots), FairQueue(self.slots)

    @property
    def interactive_slots(self) -> int:
        """Slots in which interactive sequences run."""
        return self.slots - len(self.free) - self.document_slots

    def waiting(self, sequence: Sequence) -> FairQueue:
        """Returns the queue in which a sequence waits."""
        return self.documents if sequence.document else self.interactive

    def admit(self, max_tokens: int, due: bool) -> list[list[Sequence]]:
        """Moves waiting sequences to the running ones, in up to two groups with at most `max_tokens` padded source tokens
        each: interactive sequences, and documents if these are `due`."""
        kept = self._document_room(due)
        groups = [self.interactive.take(len(self.free) - kept, max_tokens)]
        self._occupy_all(groups[0])
        if due:
            if not self.interactive:
                kept = max(kept, int(_DOCUMENT_SLOTS * self.slots) - self.document_slots)
            groups.append(self.documents.take(min(kept, len(self.free)), max_tokens))
            self._occupy_all(groups[1])
        return [group for group in groups if group]

    def next_batch(self, due: bool) -> list[Sequence]:
        """Returns the running sequences that decode next: documents if these are `due` and some run, else the others."""
        documents = due and self.document_slots > 0
        return [sequence for sequence in self.running.values() if sequence.document == documents]

    def _document_room(self, due: bool) -> int:
        """Returns how many slots are kept for the documents that wait: their part, and if they are `due` enough for one
        document where none runs. It is 0 where the next document, or the next interactive sequence beside them, does not
        fit."""
        if not (width := self.documents.next_width):
            return 0
        room = int(_DOCUMENT_SLOTS_BESIDE * self.slots) - self.document_slots
        if due and not self.document_slots:
            room = max(room, width)
        elif self.interactive.next_width > self.slots - self.document_slots - room:
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
        self.document_slots += sequence.width * sequence.document
        self.waiting(sequence).start(sequence)

    def vacate(self, sequence: Sequence) -> None:
        """Frees the slots of a running sequence."""
        sequence.running = False
        del self.running[sequence.id]
        self.document_slots -= sequence.width * sequence.document
        self.waiting(sequence).stop(sequence)
        for slot in sequence.slots:
            heapq.heappush(self.free, slot)
