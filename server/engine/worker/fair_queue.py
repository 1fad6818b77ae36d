"""Weighted fair queueing (Goyal et al. 1996): the flow that used the fewest seconds of the device,
divided by its weight, is next."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from server.engine.worker.sequence import Flow, Kind, Sequence

_CREDIT = 0.005
"""Seconds that a flow which was idle may use before the others."""
_CLIENT_SLOTS = 1 / 16
"""Part of the slots that a client may always have: a few callers with a few sentences each fill a
batch."""


class FairClock:
    """The seconds that flows used, divided by their weights; `now` is the least of the flows with
    jobs."""

    def __init__(self) -> None:
        self.now = 0.0
        self._used: dict[Hashable, float] = {}

    def used(self, flow: Hashable) -> float:
        return max(self._used.get(flow, 0.0), self.now - _CREDIT)

    def charge(self, flow: Hashable, seconds: float) -> None:
        self._used[flow] = self.used(flow) + seconds
        if len(self._used) > 4096:
            least = self.now - _CREDIT
            self._used = {flow: used for flow, used in self._used.items() if used > least}

    def advance(self, flow: Hashable) -> None:
        """Notes that this flow, which used the least of those with jobs, runs."""
        self.now = max(self.now, self.used(flow))


class StepTime:
    """The seconds of a decode step as a line over its rows, by least squares over recent steps."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._rows = self._seconds = self._variance = self._covariance = 0.0

    def record(self, rows: int, seconds: float) -> None:
        part = 0.05 if self._seconds else 1.0
        more_rows, more_seconds = rows - self._rows, seconds - self._seconds
        self._rows += part * more_rows
        self._seconds += part * more_seconds
        self._variance = (1 - part) * (self._variance + part * more_rows**2)
        self._covariance = (1 - part) * (self._covariance + part * more_rows * more_seconds)

    @property
    def fixed_rows(self) -> float:
        """Rows that take as long as the constant part of a step: 1/32 to 1/2 of the slots, 1/16
        before it is measured."""
        if self._variance < 1:
            return self._slots / 16
        row = self._covariance / self._variance
        fixed = self._seconds / row - self._rows if row > 0 else self._slots
        return min(self._slots / 2, max(self._slots / 32, fixed))


@dataclass(slots=True)
class FlowJobs:
    """The jobs of a flow for one model: those that wait, and the rows of all its jobs."""

    weight: float = 1.0
    rows: int = 0
    waiting: deque[Sequence] = field(default_factory=deque)


class ModelQueue:
    """The jobs of one loaded model. `running` has those that have begun by id, oldest first; all
    but looks have slots. Where it `reads_known`, a step may read several tokens of a given target.
    """

    def __init__(self, slots: int, reads_known: bool = True) -> None:
        self.reads_known = reads_known
        self.slots, self.free, self.step_time = slots, list(range(slots)), StepTime(slots)
        self.running: dict[int, Sequence] = {}
        self.flows: dict[Flow, FlowJobs] = {}

    def push(self, sequence: Sequence, *, first: bool = False) -> None:
        """Adds a waiting job, as the last or the first one of its flow."""
        flow = self.flows.setdefault(sequence.flow, FlowJobs())
        (flow.waiting.appendleft if first else flow.waiting.append)(sequence)
        flow.weight = sequence.job.weight
        flow.rows += sequence.width

    def start(self, sequence: Sequence) -> None:
        """Starts a waiting job, mostly the first of its flow, with the slots that it needs."""
        self.flows[sequence.flow].waiting.remove(sequence)
        if not sequence.kind.look:
            sequence.slots = tuple(heapq.heappop(self.free) for _ in range(sequence.width))
        self.running[sequence.id] = sequence

    def remove(self, sequence: Sequence) -> None:
        """Removes a job that waits or runs, and frees its slots."""
        flow = self.flows[sequence.flow]
        flow.rows -= sequence.width
        if self.running.pop(sequence.id, None) is None:
            flow.waiting.remove(sequence)
        if not flow.rows:
            del self.flows[sequence.flow]
        for slot in sequence.slots:
            heapq.heappush(self.free, slot)
        sequence.slots = ()

    def client_rows(self, kind: Kind) -> float:
        """Returns the rows that a client of weight 1 may have in a step. There is no bound while
        each client needs more than its share of the slots. Else clients with more rows than the
        others get _CLIENT_SLOTS each, or together as many as double the time of a step."""
        flows = [flow for (other, _), flow in self.flows.items() if other is kind]
        flows.sort(key=lambda flow: flow.rows / flow.weight)
        weights = sum([flow.weight for flow in flows])
        if len(flows) < 2 or flows[0].rows >= self.slots * flows[0].weight / weights:
            return math.inf
        rows, most = self.step_time.fixed_rows, flows[0].rows / flows[0].weight
        most = max(most, _CLIENT_SLOTS * self.slots)
        for flow in flows[:-1]:
            if flow.rows > most * flow.weight:
                break
            rows, weights = rows + flow.rows, weights - flow.weight
            most = max(most, rows / weights)
        return most
