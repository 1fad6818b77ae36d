"""The jobs of one loaded model: those that wait, in the order in which they are due, and those that have slots."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator
from collections.abc import Sequence as Items

from server.engine.worker.sequence import AttentionRequest, Sequence

_CLIENT_SLOTS = 1 / 16
"""While there are other clients, a client may use this part of the slots for interactive sequences, or as many as all
others need together. So a client with many sequences doubles the time of a step at most."""
_DOCUMENT_SLOTS, _DOCUMENT_SLOTS_BESIDE = 3 / 4, 1 / 4
"""Documents take this part of the slots, or while interactive sequences wait the smaller one."""
_DOCUMENT_FACTOR = 3.0
"""By how much the looks of documents cost more than those of short requests."""
_MOST_LOOKS, _LOOK_TOKENS = 8, 256
"""Looks of one pass, and their source and target tokens."""
_MAX_CLIENTS = 4096
"""The service of this many clients is remembered while they have nothing waiting."""

_Flow = tuple[bool, str]
"""The sequences of one client: of its documents, or its interactive ones."""
_DOCUMENTS: _Flow = (True, "")
"""Documents of all clients share their part of the slots."""


class FairQueue:
    """The waiting and running sequences of one loaded model with `slots` slots. `running` maps job ids to sequences.

    The order is start-time fair queueing between clients: the one with the fewest tokens served, divided by its weight,
    is next (Goyal et al. 1996).
    """

    def __init__(self, model: str, slots: int) -> None:
        self.model, self.slots = model, slots
        self.free = list(range(slots))
        self.running: dict[int, Sequence] = {}
        self._used: Counter[_Flow] = Counter()
        self._needed: Counter[_Flow] = Counter()
        """Slots in use, and with those that waiting sequences need, by client; those of documents in one number."""
        self._waiting: dict[_Flow, deque[Sequence]] = {}
        self._served: dict[_Flow, float] = {}
        self._virtual_time = {False: 0.0, True: 0.0}

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def interactive_slots(self) -> int:
        """Slots in which interactive sequences run."""
        return self._used.total() - self._used[_DOCUMENTS]

    @property
    def interactive_needed(self) -> int:
        """Slots in which they run or for which they wait."""
        return self._needed.total() - self._needed[_DOCUMENTS]

    def push(self, sequence: Sequence, *, first: bool = False) -> None:
        """Adds a waiting sequence, as the last or the first one of its client."""
        flow = _flow(sequence)
        if flow not in self._waiting:
            self._waiting[flow] = deque()
            self._served[flow] = max(self._served.get(flow, 0.0), self._virtual_time[sequence.document])
        queue = self._waiting[flow]
        (queue.appendleft if first else queue.append)(sequence)
        self._needed[_holder(sequence)] += sequence.width

    def drop(self, sequence: Sequence) -> None:
        """Removes a waiting sequence; cheap, as it is nearly always the first of its client."""
        flow = _flow(sequence)
        queue = self._waiting[flow]
        queue.remove(sequence)
        self._forget_need(sequence)
        if not queue:
            del self._waiting[flow]
            if len(self._served) > _MAX_CLIENTS:
                past = self._virtual_time
                self._served = {f: s for f, s in self._served.items() if s > past[f[0]] or f in self._waiting}

    def ordered(self, documents: bool) -> Iterator[Sequence]:
        """Yields the waiting documents, or the interactive sequences, in fair order, as if each were charged when it is
        yielded, without those that would take more slots than they may; a sequence may always take those it needs where no
        other of its kind runs."""
        used, limits = self._used.copy(), {holder: self._most_slots(holder) for holder in self._needed}
        queues = {flow: iter(queue) for flow, queue in self._waiting.items() if flow[0] == documents}
        heap = [(self._served[flow], self._waiting[flow][0].id, flow) for flow in queues]
        heapq.heapify(heap)
        while heap:
            served, _, flow = heapq.heappop(heap)
            sequence = next(queues[flow], None)
            if sequence is None:
                continue
            holder = _holder(sequence)
            if used[holder] and used[holder] + sequence.width > limits[holder]:
                continue
            used[holder] += sequence.width
            heapq.heappush(heap, (served + _cost(sequence), sequence.id, flow))
            yield sequence

    def start(self, sequence: Sequence) -> None:
        """Moves a waiting sequence to the running ones, and charges its client."""
        flow, document = _flow(sequence), sequence.document
        self._virtual_time[document] = max(self._virtual_time[document], self._served[flow])
        self._served[flow] += _cost(sequence)
        self.drop(sequence)
        self.occupy(sequence)

    def next_batch(self, due: bool) -> list[Sequence]:
        """Returns the running sequences that decode next: documents if these are `due` and some run, else the others."""
        documents = due and self._used[_DOCUMENTS] > 0
        return [sequence for sequence in self.running.values() if sequence.document == documents]

    def occupy(self, sequence: Sequence) -> None:
        """Gives a sequence its slots."""
        sequence.slots = tuple(heapq.heappop(self.free) for _ in range(sequence.width))
        sequence.running = True
        self.running[sequence.id] = sequence
        self._used[_holder(sequence)] += sequence.width
        self._needed[_holder(sequence)] += sequence.width

    def vacate(self, sequence: Sequence) -> None:
        """Frees the slots of a running sequence."""
        sequence.running = False
        del self.running[sequence.id]
        self._used[_holder(sequence)] -= sequence.width
        self._forget_need(sequence)
        for slot in sequence.slots:
            heapq.heappush(self.free, slot)

    def _forget_need(self, sequence: Sequence) -> None:
        holder = _holder(sequence)
        self._needed[holder] -= sequence.width
        if not self._needed[holder]:
            del self._used[holder], self._needed[holder]

    def _most_slots(self, holder: _Flow) -> float:
        if holder == _DOCUMENTS:
            beside = any(not document for document, _ in self._waiting)
            return (_DOCUMENT_SLOTS_BESIDE if beside else _DOCUMENT_SLOTS) * self.slots
        others = self.interactive_needed - self._needed[holder]
        return max(_CLIENT_SLOTS * self.slots, others) if others else self.slots


def _flow(sequence: Sequence) -> _Flow:
    return sequence.document, sequence.job.client


def _holder(sequence: Sequence) -> _Flow:
    """Returns the key under which the slots of a sequence are counted."""
    return _DOCUMENTS if sequence.document else (False, sequence.job.client)


def _cost(sequence: Sequence) -> float:
    """Returns what a client is charged: tokens divided by its weight."""
    return sequence.length * sequence.width / sequence.job.weight


class LookQueue:
    """The looks that wait, of all models. The client whose looks took the fewest seconds, divided by its weight, is next."""

    def __init__(self) -> None:
        self._waiting: dict[_Flow, deque[AttentionRequest]] = {}
        self._served: dict[_Flow, float] = {}
        self._virtual_time = 0.0
        self._token_seconds = 1e-4
        """Measured seconds of a token of a pass."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def short(self) -> bool:
        """Whether a look of a short request waits."""
        return any(not document for document, _ in self._waiting)

    def push(self, request: AttentionRequest) -> None:
        """Adds a look as the last of its client."""
        flow = _look_flow(request)
        if flow not in self._waiting:
            self._waiting[flow] = deque()
            if len(self._served) > _MAX_CLIENTS:
                self._served = {f: s for f, s in self._served.items() if s > self._virtual_time or f in self._waiting}
            self._served[flow] = max(self._served.get(flow, 0.0), self._virtual_time)
        self._waiting[flow].append(request)

    def batch(self) -> list[AttentionRequest]:
        """Returns the looks that are next, in fair order, as far as one pass computes them together. They stay in the queue
        until they are dropped."""
        chosen: list[AttentionRequest] = []
        tokens = 0
        for request in self._ordered():
            tokens += request.length
            if chosen and (len(chosen) == _MOST_LOOKS or tokens > _LOOK_TOKENS or not request.together_with(chosen[0])):
                break
            if not chosen:
                flow = _look_flow(request)
                self._virtual_time = max(self._virtual_time, self._served[flow])
            chosen.append(request)
        return chosen

    def _ordered(self) -> Iterator[AttentionRequest]:
        """Yields the looks in fair order, as if each were charged when it is yielded."""
        queues = {flow: iter(queue) for flow, queue in self._waiting.items()}
        heap = [(self._served[flow], self._waiting[flow][0].id, flow) for flow in queues]
        heapq.heapify(heap)
        while heap:
            served, _, flow = heapq.heappop(heap)
            if (request := next(queues[flow], None)) is not None:
                yield request
                cost = self._token_seconds * request.length * _factor(request)
                heapq.heappush(heap, (served + cost, request.id, flow))

    def charge(self, requests: Items[AttentionRequest], seconds: float) -> None:
        """Divides the seconds of a pass among its looks by their tokens, and charges their clients."""
        tokens = sum(request.length for request in requests)
        self._token_seconds += 0.2 * (seconds / max(1, tokens) - self._token_seconds)
        for request in requests:
            flow = _look_flow(request)
            if flow in self._served:
                self._served[flow] += seconds * request.length / max(1, tokens) * _factor(request)

    def drop(self, request: AttentionRequest) -> None:
        """Removes a look; cheap, as it is nearly always the first of its client."""
        flow = _look_flow(request)
        self._waiting[flow].remove(request)
        if not self._waiting[flow]:
            del self._waiting[flow]


def _factor(request: AttentionRequest) -> float:
    return (_DOCUMENT_FACTOR if request.job.priority else 1.0) / request.job.weight


def _look_flow(request: AttentionRequest) -> _Flow:
    return request.job.priority > 0, request.job.client
