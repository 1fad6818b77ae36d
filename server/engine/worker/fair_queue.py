"""Who waits, and who is next: interactive before documents, callers in turn, neighbours of similar length together."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import islice

from server.engine.worker.sequence import Sequence

_WINDOW = 128
"""How far down the queue admission looks for neighbours of similar length."""
_DOCUMENT_TURN = 8
"""After so many admissions without one, a waiting document goes first."""
_PADDING = 1.5
_SLACK = 64
"""Newcomers are encoded together while padded tokens stay below _PADDING * tokens + _SLACK."""
_REMEMBERED = 4096


class _Turns:
    """Start-time fair queueing between callers: who has been served the fewest tokens is next (Goyal et al. 1996)."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Sequence]] = {}
        self._served: dict[str, float] = {}
        self._now = 0.0

    def push(self, sequence: Sequence) -> None:
        client = sequence.job.client
        if client not in self._waiting:
            self._waiting[client] = deque()
            self._served[client] = max(self._served.get(client, 0.0), self._now)
        self._waiting[client].append(sequence)

    def take(self, sequence: Sequence) -> None:
        """`sequence` runs now: charge its caller."""
        client = sequence.job.client
        self._now = max(self._now, self._served[client])
        self._served[client] += _cost(sequence)
        self.drop(sequence)

    def drop(self, sequence: Sequence) -> None:
        """`sequence` waits no longer. The first of a caller's line nearly always, so this is cheap."""
        client = sequence.job.client
        line = self._waiting[client]
        if line[0] is sequence:
            line.popleft()
        else:
            line.remove(sequence)
        if not line:
            del self._waiting[client]
            if len(self._served) > _REMEMBERED:
                self._served = {c: s for c, s in self._served.items() if s > self._now or c in self._waiting}

    def ordered(self) -> Iterator[Sequence]:
        """Everyone who waits, in fair order, as if each were charged when it is yielded."""
        lines = {client: iter(line) for client, line in self._waiting.items()}
        heap = [(self._served[client], line[0].id, client) for client, line in self._waiting.items()]
        heapq.heapify(heap)
        while heap:
            served, _, client = heapq.heappop(heap)
            sequence = next(lines[client], None)
            if sequence is not None:
                heapq.heappush(heap, (served + _cost(sequence), sequence.id, client))
                yield sequence


class FairQueue:
    """The waiting sequences of one model."""

    def __init__(self) -> None:
        self._classes = (_Turns(), _Turns())
        self._counts = [0, 0]
        self._without_document = 0

    def __len__(self) -> int:
        return sum(self._counts)

    def push(self, sequence: Sequence) -> None:
        rank = _rank(sequence)
        self._classes[rank].push(sequence)
        self._counts[rank] += 1

    def drop(self, sequence: Sequence) -> None:
        """Cancelled or past its deadline."""
        rank = _rank(sequence)
        self._classes[rank].drop(sequence)
        self._counts[rank] -= 1

    def take(self, slots: int, tokens: int) -> list[Sequence]:
        """Those to run next, at most `slots` wide together and `tokens` padded source tokens (one alone may have more).

        The first in fair order is always among them, or nobody is: whoever waits comes first in the end. It brings
        along those of the window whose length is closest to its own.
        """
        document_first = self._without_document >= _DOCUMENT_TURN and self._counts[1] > 0
        ranks = (1, 0) if document_first else (0, 1)
        window = [list(islice(self._classes[rank].ordered(), _WINDOW)) for rank in ranks]
        first = next((line[0] for line in window if line), None)
        if first is None or first.width > slots:
            return []
        chosen: list[Sequence] = []
        width = total = longest = 0
        for line in window:
            for sequence in sorted(line, key=lambda other: (other is not first, abs(other.length - first.length))):
                size = max(longest, sequence.length) * (len(chosen) + 1)
                allowed = min(tokens, _PADDING * (total + sequence.length) + _SLACK)
                if width + sequence.width <= slots and (size <= allowed or not chosen):
                    chosen.append(sequence)
                    width, total = width + sequence.width, total + sequence.length
                    longest = max(longest, sequence.length)
        for sequence in chosen:
            rank = _rank(sequence)
            self._classes[rank].take(sequence)
            self._counts[rank] -= 1
        took_document = any(_rank(sequence) for sequence in chosen)
        self._without_document = 0 if took_document or not self._counts[1] else self._without_document + 1
        return chosen


def _rank(sequence: Sequence) -> int:
    return 0 if sequence.job.priority <= 0 else 1


def _cost(sequence: Sequence) -> float:
    return float(sequence.length * sequence.width)
