"""The order in which the sequences of one kind run: fair between callers."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator

from server.engine.worker.sequence import Sequence

_CLIENT_SLOTS = 1 / 16
"""While there are other clients, a client may use this part of the slots, or as many as all others need together. So a
client with many sequences doubles the time of a step at most."""
_MAX_CLIENTS = 4096
"""The service of this many clients is remembered while they have nothing waiting."""


class FairQueue:
    """Start-time fair queueing between clients: the one with the fewest tokens served, divided by its weight, is next
    (Goyal et al. 1996)."""

    def __init__(self, slots: int) -> None:
        self._client_slots = max(1, int(_CLIENT_SLOTS * slots))
        self._running: Counter[str] = Counter()
        """Slots in use by client."""
        self._needed: Counter[str] = Counter()
        """Slots in use, and slots that waiting sequences need, by client."""
        self._waiting: dict[str, deque[Sequence]] = {}
        self._served: dict[str, float] = {}
        self._virtual_time = 0.0

    def __bool__(self) -> bool:
        """Whether a sequence waits."""
        return bool(self._waiting)

    @property
    def next_width(self) -> int:
        """The slots that the first sequence in fair order needs; 0 where none waits."""
        first = next(self._ordered(), None)
        return first.width if first is not None else 0

    def push(self, sequence: Sequence, *, first: bool = False) -> None:
        """Adds a sequence, as the last or the first one of its client."""
        client = sequence.job.client
        if client not in self._waiting:
            self._waiting[client] = deque()
            self._served[client] = max(self._served.get(client, 0.0), self._virtual_time)
        queue = self._waiting[client]
        (queue.appendleft if first else queue.append)(sequence)
        self._needed[client] += sequence.width

    def start(self, sequence: Sequence) -> None:
        """Counts the slots of a sequence that runs now."""
        self._running[sequence.job.client] += sequence.width
        self._needed[sequence.job.client] += sequence.width

    def stop(self, sequence: Sequence) -> None:
        """Counts the slots of a sequence that does not run any more."""
        self._running[sequence.job.client] -= sequence.width
        self._forget_need(sequence)

    def drop(self, sequence: Sequence) -> None:
        """Removes a sequence; cheap, as it is nearly always the first of its client."""
        client = sequence.job.client
        queue = self._waiting[client]
        queue.remove(sequence)
        self._forget_need(sequence)
        if not queue:
            del self._waiting[client]
            if len(self._served) > _MAX_CLIENTS:
                self._served = {c: s for c, s in self._served.items() if s > self._virtual_time or c in self._waiting}

    def take(self, slots: int, tokens: int) -> list[Sequence]:
        """Removes and returns the sequences to run next, in fair order, with at most `slots` slots and `tokens` padded
        source tokens together (a single sequence may have more)."""
        chosen: list[Sequence] = []
        longest = 0
        for sequence in self._ordered():
            longest = max(longest, sequence.length)
            if sequence.width > slots or (chosen and longest * (len(chosen) + 1) > tokens):
                break
            chosen.append(sequence)
            slots -= sequence.width
        for sequence in chosen:
            client = sequence.job.client
            self._virtual_time = max(self._virtual_time, self._served[client])
            self._served[client] += _cost(sequence)
            self.drop(sequence)
        return chosen

    def _forget_need(self, sequence: Sequence) -> None:
        client = sequence.job.client
        self._needed[client] -= sequence.width
        if not self._needed[client]:
            del self._running[client], self._needed[client]

    def _ordered(self) -> Iterator[Sequence]:
        """Yields the waiting sequences in fair order, as if each were charged when it is yielded, without those for which
        their client has no slots."""
        total = self._needed.total()
        used = self._running.copy()
        queues = {client: iter(queue) for client, queue in self._waiting.items()}
        heap = [(self._served[client], queue[0].id, client) for client, queue in self._waiting.items()]
        heapq.heapify(heap)
        while heap:
            served, _, client = heapq.heappop(heap)
            sequence = next(queues[client], None)
            if sequence is None:
                continue
            others = total - self._needed[client]
            if used[client] and others and used[client] + sequence.width > max(self._client_slots, others):
                continue
            used[client] += sequence.width
            heapq.heappush(heap, (served + _cost(sequence), sequence.id, client))
            yield sequence


def _cost(sequence: Sequence) -> float:
    """Returns what a client is charged: tokens divided by its weight."""
    return sequence.length * sequence.width / sequence.job.weight
