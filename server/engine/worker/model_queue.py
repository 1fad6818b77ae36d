"""The jobs of one loaded model: who waits, who runs, and which slots are free."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from server.engine.worker.fair_queue import FairQueue
from server.engine.worker.sequence import Sequence

_GROUP = 8
"""While sequences run and more wait than there are free slots, at least slots / _GROUP are admitted together."""
_MAX_HELD = 2
"""Steps for which an admission may be delayed to form such a group."""


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

    def __post_init__(self) -> None:
        self.free = list(range(self.slots))

    def admit(self, max_tokens: int) -> list[Sequence]:
        """Moves waiting sequences to the running ones, at most `max_tokens` padded source tokens of them."""
        if self.running and len(self.free) < min(len(self.waiting), self.slots // _GROUP) and self.held < _MAX_HELD:
            self.held += 1
            return []
        self.held = 0
        admitted = self.waiting.take(len(self.free), max_tokens)
        for sequence in admitted:
            self.occupy(sequence)
        return admitted

    def occupy(self, sequence: Sequence) -> None:
        """Gives a sequence its slots."""
        sequence.slots = tuple(heapq.heappop(self.free) for _ in range(sequence.width))
        sequence.running = True
        self.running[sequence.id] = sequence

    def vacate(self, sequence: Sequence) -> None:
        """Frees the slots of a running sequence."""
        sequence.running = False
        del self.running[sequence.id]
        for slot in sequence.slots:
            heapq.heappush(self.free, slot)
