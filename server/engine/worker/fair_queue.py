"""The order of waiting sequences: fair between callers, similar lengths together; documents have an order of their own."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import islice

from server.engine.worker.sequence import Sequence

_WINDOW = 128
"""Sequences at the head of the queue among which those of similar length are chosen."""
_PADDING = 1.5
_SLACK = 64
"""Sequences are encoded together while their padded tokens stay below _PADDING * tokens + _SLACK."""
_MAX_CLIENTS = 4096
"""The service of this many clients is remembered while they have nothing waiting."""


class _ClientQueues:
    """Start-time fair queueing between clients: the one with the fewest tokens served, divided by its weight, is next
    (Goyal et al. 1996)."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Sequence]] = {}
        self._served: dict[str, float] = {}
        self._now = 0.0

    def push(self, sequence: Sequence, *, first: bool) -> None:
        client = sequence.job.client
        if client not in self._waiting:
            self._waiting[client] = deque()
            self._served[client] = max(self._served.get(client, 0.0), self._now)
        queue = self._waiting[client]
        (queue.appendleft if first else queue.append)(sequence)

    def take(self, sequence: Sequence) -> None:
        """Removes a sequence that runs now, and charges its client."""
        client = sequence.job.client
        self._now = max(self._now, self._served[client])
        self._served[client] += _cost(sequence)
        self.drop(sequence)

    def drop(self, sequence: Sequence) -> None:
        """Removes a sequence; cheap, as it is nearly always the first of its client."""
        client = sequence.job.client
        queue = self._waiting[client]
        if queue[0] is sequence:
            queue.popleft()
        else:
            queue.remove(sequence)
        if not queue:
            del self._waiting[client]
            if len(self._served) > _MAX_CLIENTS:
                self._served = {c: s for c, s in self._served.items() if s > self._now or c in self._waiting}

    def ordered(self) -> Iterator[Sequence]:
        """Yields the waiting sequences in fair order, as if each were charged when it is yielded."""
        queues = {client: iter(queue) for client, queue in self._waiting.items()}
        heap = [(self._served[client], queue[0].id, client) for client, queue in self._waiting.items()]
        heapq.heapify(heap)
        while heap:
            served, _, client = heapq.heappop(heap)
            sequence = next(queues[client], None)
            if sequence is not None:
                heapq.heappush(heap, (served + _cost(sequence), sequence.id, client))
                yield sequence


class FairQueue:
    """The waiting sequences of one model."""

    def __init__(self) -> None:
        self._classes = (_ClientQueues(), _ClientQueues())
        self._counts = [0, 0]
        self.interactive_slots = 0
        """Slots that the waiting interactive sequences need."""

    def __len__(self) -> int:
        return sum(self._counts)

    def number(self, *, documents: bool) -> int:
        """Returns how many sequences wait: documents, or interactive ones."""
        return self._counts[documents]

    def next_width(self, *, documents: bool) -> int:
        """Returns the slots that the first sequence in fair order needs; 0 where none waits."""
        first = next(self._classes[documents].ordered(), None)
        return first.width if first is not None else 0

    def push(self, sequence: Sequence, *, first: bool = False) -> None:
        """Adds a sequence, as the last or the first one of its client."""
        self._classes[_priority(sequence)].push(sequence, first=first)
        self._count(sequence, 1)

    def drop(self, sequence: Sequence) -> None:
        """Removes a sequence that was cancelled."""
        self._classes[_priority(sequence)].drop(sequence)
        self._count(sequence, -1)

    def _count(self, sequence: Sequence, number: int) -> None:
        level = _priority(sequence)
        self._counts[level] += number
        self.interactive_slots += 0 if level else number * sequence.width

    def take(self, slots: int, tokens: int, *, documents: bool) -> list[Sequence]:
        """Removes and returns the documents, or the interactive sequences, to run next, with at most `slots` slots and
        `tokens` padded source tokens together (a single sequence may have more).

        The first in fair order is always one of them, so that every sequence runs eventually; where it does not fit,
        the result is empty. The others are those of the window with the closest length.
        """
        window = list(islice(self._classes[documents].ordered(), _WINDOW))
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
            self._classes[documents].take(sequence)
            self._count(sequence, -1)
        return chosen


def _priority(sequence: Sequence) -> int:
    return int(sequence.document)


def _cost(sequence: Sequence) -> float:
    """Returns what a client is charged: tokens divided by its weight."""
    return sequence.length * sequence.width / sequence.job.weight
