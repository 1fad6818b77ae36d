"""The order in which the sequences of one kind run: fair between callers, similar lengths together."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice

from server.engine.worker.sequence import Sequence

_WINDOW = 128
"""Sequences at the head of the queue among which those of similar length are chosen."""
_PADDING = 1.5
_SLACK = 64
"""Sequences are encoded together while their padded tokens stay below _PADDING * tokens + _SLACK."""
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
        self._length = 0

    def __len__(self) -> int:
        return self._length

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
        self._length += 1
        self._needed[client] += sequence.width

    def start(self, sequence: Sequence) -> None:
        """Counts the slots of a sequence that runs now."""
        self._running[sequence.job.client] += sequence.width
        self._needed[sequence.job.client] += sequence.width

    def stop(self, sequence: Sequence) -> None:
        """Counts the slots of a sequence that does not run any more."""
        client = sequence.job.client
        self._running[client] -= sequence.width
        self._needed[client] -= sequence.width
        if not self._needed[client]:
            del self._running[client], self._needed[client]

    def drop(self, sequence: Sequence) -> None:
        """Removes a sequence; cheap, as it is nearly always the first of its client."""
        client = sequence.job.client
        queue = self._waiting[client]
        if queue[0] is sequence:
            queue.popleft()
        else:
            queue.remove(sequence)
        self._length -= 1
        self._needed[client] -= sequence.width
        if not self._needed[client]:
            del self._running[client], self._needed[client]
        if not queue:
            del self._waiting[client]
            if len(self._served) > _MAX_CLIENTS:
                self._served = {c: s for c, s in self._served.items() if s > self._virtual_time or c in self._waiting}

    def take(self, slots: int, tokens: int) -> list[Sequence]:
        """Removes and returns the sequences to run next, with at most `slots` slots and `tokens` padded source tokens
        together (a single sequence may have more).

        The first in fair order is always one of them, so that every sequence runs eventually; where it does not fit,
        the result is empty. The others are those of the window with the closest length.
        """
        window = list(islice(self._ordered(), _WINDOW))
        if not window or window[0].width > slots:
            return []
        first = window[0]
        chosen: list[Sequence] = []
        total = longest = 0
        for sequence in sorted(window, key=lambda other: (other is not first, abs(other.length - first.length))):
            size = max(longest, sequence.length) * (len(chosen) + 1)
            allowed = min(tokens, _PADDING * (total + sequence.length) + _SLACK)
            if sequence.width <= slots and (size <= allowed or not chosen):
                chosen.append(sequence)
                slots -= sequence.width
                total, longest = total + sequence.length, max(longest, sequence.length)
        for sequence in chosen:
            client = sequence.job.client
            self._virtual_time = max(self._virtual_time, self._served[client])
            self._served[client] += _cost(sequence)
            self.drop(sequence)
        return chosen

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
