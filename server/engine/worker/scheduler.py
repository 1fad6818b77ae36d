"""Decides what the device runs next. Pure Python without a clock: the caller reports the seconds.

for batch in scheduler.schedule():  # sequences that decode a step, or looks for one pass
    scheduler.record_step(...)      # how long that took
    scheduler.finish(id)            # answered: the slots are free for the next turn

Weighted fair queueing (Goyal et al. 1996): the flow that used the fewest seconds of the device,
divided by its weight, is next.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from itertools import chain

from server.engine.ipc.messages import Job
from server.engine.worker.sequence import KINDS, LOOK, SHORT, Flow, Kind, Sequence, shared_pass

_DOCUMENT_WEIGHT = 1 / 3
"""Seconds for documents in each second for short requests, while there are both."""
_DOCUMENT_SLOTS, _DOCUMENT_SLOTS_BESIDE = 3 / 4, 1 / 4
"""Part of a model's slots for documents; the smaller one while it has short requests."""
_TURN_STEPS, _MOST_LOOKS = 3.0, 8
"""A turn may also take as long as so many decode steps of short requests; looks of one pass."""
_RECENT_SECONDS = 0.1
"""Documents leave time for short requests until the device worked so long without one: a sentence
with markup is a job and, a little later, a look."""
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


class Scheduler:
    """Schedules the models in `queues`. `max_batch_tokens` bounds the padded tokens of a prefill.

    A turn belongs to short requests or to documents, whichever used less time by weight, and to the
    kind of the flow that is next among them. Jobs of other clients of this kind run in it too.
    """

    def __init__(self, max_batch_tokens: int) -> None:
        self.queues: dict[str, ModelQueue] = {}
        self._max_batch_tokens = max_batch_tokens
        self.jobs: dict[int, Sequence] = {}  # that are not answered, by id
        self._alone: deque[Sequence] = deque()  # the first one may be running
        self._classes = FairClock()  # of short requests and documents: by Kind.document
        self._flows = {False: FairClock(), True: FairClock()}
        self.token_seconds = dict.fromkeys(KINDS, 1e-4)  # all that a token of a row takes, lately
        self._prefill_seconds, self._step_seconds = 1e-4, 0.0  # of a padded token; of a short step
        self._without_short = math.inf  # seconds of the device since the last short request

    @property
    def running(self) -> list[Sequence]:
        return [job for queue in self.queues.values() for job in queue.running.values()]

    def add(self, job: Job, now: float) -> None:
        """Accepts a job for an open model with enough slots. One that only scores a target is the
        next of its client, because a translated sentence waits for it."""
        self._enter(Sequence(job, now, job.alone), job.options.target is not None and not job.look)

    def _enter(self, sequence: Sequence, first: bool = False) -> None:
        self.jobs[sequence.id] = sequence
        self.queues[sequence.job.model].push(sequence, first=first)
        if sequence.alone:
            self._alone.append(sequence)

    def finish(self, id: int) -> Sequence | None:
        """Removes a job that is answered or cancelled and frees its slots; None for an unknown
        one."""
        if (sequence := self.jobs.pop(id, None)) is None:
            return None
        if sequence.alone:
            self._alone.remove(sequence)
        self.queues[sequence.job.model].remove(sequence)
        if not sequence.kind.document:
            self._without_short = 0.0
        if sequence.hypotheses or sequence.kind.look:
            token = sequence.seconds / sequence.length / sequence.width
            self.token_seconds[sequence.kind] += 0.05 * (token - self.token_seconds[sequence.kind])
        return sequence

    def restart(self, sequence: Sequence) -> None:
        """Runs a job again from its start and alone, because a step of its batch failed."""
        self.finish(sequence.id)
        self._enter(Sequence(sequence.job, sequence.arrived, alone=True, seconds=sequence.seconds))

    def record_prefill(self, sequences: Items[Sequence], seconds: float) -> None:
        lengths = [sequence.length for sequence in sequences]
        token = seconds / len(lengths) / max(lengths)
        self._prefill_seconds += 0.2 * (token - self._prefill_seconds)
        self.charge(sequences, lengths, seconds)

    def record_step(self, sequences: Items[Sequence], seconds: float, steps: int) -> None:
        rows = [sequence.width * sequence.read for sequence in sequences]
        self.queues[sequences[0].job.model].step_time.record(sum(rows), seconds / steps)
        if not sequences[0].kind.document:
            self._step_seconds += 0.2 * (seconds / steps - self._step_seconds)
        self.charge(sequences, rows, seconds)

    def charge(self, sequences: Items[Sequence], parts: Items[int], seconds: float) -> None:
        """Divides seconds among jobs of one kind by their parts, and charges their flows."""
        kind, second, used = sequences[0].kind, seconds / sum(parts), dict[str, float]()
        for sequence, part in zip(sequences, parts, strict=True):
            client = sequence.job.client
            sequence.seconds += second * part
            used[client] = used.get(client, 0.0) + second * part / sequence.job.weight
        for client, by_weight in used.items():
            self._flows[kind.document].charge((kind, client), by_weight / kind.weight)
        self._classes.charge(kind.document, seconds / (_DOCUMENT_WEIGHT if kind.document else 1.0))
        self._without_short += seconds

    def schedule(self) -> list[list[Sequence]]:
        """Starts jobs and returns the batches of the next turn, each of one kind and one model, at
        least one while there are jobs."""
        if self._alone and not self.running:
            self.queues[self._alone[0].job.model].start(self._alone[0])
        if len(self.jobs) == 1 and (only := next(iter(self.jobs.values()))).slots:
            self._advance(only.kind, only.flow)
            return [[only]]  # as below, in less time
        admitting = set[str]() if self._alone else {*self.queues}
        flows = dict.fromkeys([flow for queue in self.queues.values() for flow in queue.flows])
        turns: dict[Kind, Flow] = {}  # the kinds with jobs in fair order, each with its first flow
        for flow in sorted(flows, key=self._used) if len(flows) > 1 else flows:
            turns.setdefault(flow[0], flow)
        beside = SHORT in turns or LOOK in turns or self._without_short < _RECENT_SECONDS
        for kind, flow in turns.items():
            longest = (kind if beside else SHORT).longest
            longest = max(longest, _TURN_STEPS * self._step_seconds)
            if kind.look:
                batches = [self._looks(kind, longest)]
            else:
                batches = [self._rows(kind, model, longest, admitting) for model in self.queues]
            if any(batches):
                self._advance(next(iter(turns)), flow)
                return [batch for batch in batches if batch]
        return []

    def _advance(self, first: Kind, flow: Flow) -> None:
        self._classes.advance(first.document)
        self._flows[flow[0].document].advance(flow)

    def _used(self, flow: Flow) -> tuple[float, float]:
        document = flow[0].document
        return self._classes.used(document), self._flows[document].used(flow)

    def _in_order(self, queues: Iterable[ModelQueue], kind: Kind) -> Iterator[Sequence]:
        """Yields waiting jobs in fair order, as if each were charged when it is started. A flow
        ends at the first job that the caller does not start."""
        price, heap = self.token_seconds[kind] / kind.weight, []
        for queue in queues:
            for flow, jobs in queue.flows.items():
                if flow[0] is kind and jobs.waiting:
                    used = self._flows[kind.document].used(flow)
                    heap.append((used, jobs.waiting[0].id, jobs))
        heapq.heapify(heap)
        while heap:
            used, _, jobs = heapq.heappop(heap)
            job = jobs.waiting[0]
            yield job
            if jobs.waiting and jobs.waiting[0] is not job:
                used += price * job.length * job.width / jobs.weight
                heapq.heappush(heap, (used, jobs.waiting[0].id, jobs))

    def _rows(self, kind: Kind, model: str, longest: float, admitting: set[str]) -> list[Sequence]:
        """Returns the sequences of a kind and model that decode: running ones, oldest first, then
        those that join. If the next one lacks slots, the model is no longer `admitting`, so that
        slots which free up are left to it."""
        queue, batch, rows = self.queues[model], list[Sequence](), Counter[str]()
        each, most, total = queue.client_rows(kind), float(queue.slots), 0
        if kind.document:
            beside = _DOCUMENT_SLOTS_BESIDE * most
            most *= _DOCUMENT_SLOTS
            if any(other is SHORT for other, _ in queue.flows):
                most = beside
            elif self._without_short < _RECENT_SECONDS:  # a step takes about as long as beside it
                most = min(most, beside + queue.step_time.fixed_rows)
        tokens = min(self._max_batch_tokens, longest / self._prefill_seconds)
        # Beside other flows a step reads no more known tokens than a look takes.
        lone = sum([len(each.flows) for each in self.queues.values()]) == 1
        known = (longest if lone else min(longest, LOOK.longest)) / self.token_seconds[kind]
        joined = padded = 0
        running = [sequence for sequence in queue.running.values() if sequence.kind is kind]
        for sequence in chain(running, self._in_order([queue], kind) if model in admitting else ()):
            client, width = sequence.job.client, sequence.width
            if (held := rows[client]) and held + width > each * sequence.job.weight:
                continue
            full = bool(batch) and total + width > most
            if not sequence.slots:
                joined, padded = joined + 1, max(padded, sequence.length)
                if width > len(queue.free):
                    admitting.discard(model)
                    break
                if full or (joined > 1 and padded * joined > tokens):
                    break
                queue.start(sequence)
            elif full:
                continue
            batch.append(sequence)
            total += width
            # Known tokens that are read at once take as long as rows.
            if queue.reads_known and (left := sequence.known) > 1:
                room = min(known, each * sequence.job.weight - held)
                sequence.room = width = max(1, int(min(left, room)))
            rows[client] += width
        return batch

    def _looks(self, kind: Kind, longest: float) -> list[Sequence]:
        """Returns the looks of a kind that have begun, or the next ones that share a pass."""
        looks, tokens = [look for look in self.running if look.kind is kind], 0
        if looks or self._alone:
            return looks
        for look in self._in_order(self.queues.values(), kind):
            if not looks:
                shared = shared_pass(look.job)
            elif shared is None or shared_pass(look.job) != shared:
                continue
            tokens += look.length
            if looks and (len(looks) == _MOST_LOOKS or tokens * self.token_seconds[kind] > longest):
                break
            self.queues[look.job.model].start(look)
            looks.append(look)
        return looks
