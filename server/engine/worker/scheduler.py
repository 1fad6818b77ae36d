"""Decides which jobs have the next turn of the device. Pure Python, without a clock: it counts the seconds it is told.

output = scheduler.schedule()   # what to prefill and decode, or which looks to run
scheduler.record_step(...)      # how long that took
scheduler.finish(id)            # answered: the slots are free for the next turn
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

from server.engine.ipc.messages import Job
from server.engine.worker.fair_queue import FairClock, ModelQueue
from server.engine.worker.sequence import KINDS, LOOK, SHORT, Kind, LookGroup, Sequence

_DOCUMENT_WEIGHT = 1 / 3
"""Seconds for documents in each second for short requests, while there are both."""
_DOCUMENT_SLOTS, _DOCUMENT_SLOTS_BESIDE = 3 / 4, 1 / 4
"""Part of a model's slots for documents; the smaller one while it has short requests."""
_TURN_STEPS, _MOST_LOOKS = 3.0, 8
"""A turn may also take as long as so many decode steps of short requests; looks of one pass."""


@dataclass(slots=True)
class SchedulerOutput:
    """The jobs to run now, by model. Those of `prefill` have their slots, and decode in the same turn."""

    prefill: list[tuple[str, list[Sequence]]] = field(default_factory=list)
    decode: list[tuple[str, list[Sequence]]] = field(default_factory=list)
    looks: LookGroup | None = None


class Scheduler:
    """Schedules the models in `queues`. `max_batch_tokens` bounds the padded source tokens of a prefill.

    A turn belongs to short requests or documents, whichever used less time by weight, and to the kind of their flow that is
    next. Other clients' jobs of this kind run in the same turn.
    """

    def __init__(self, max_batch_tokens: int) -> None:
        self.queues: dict[str, ModelQueue] = {}
        self._max_batch_tokens = max_batch_tokens
        self._jobs: dict[int, Sequence] = {}
        self._groups: dict[Kind, LookGroup] = {}  # looks that have begun
        self._alone: deque[Sequence] = deque()  # the first one may be running
        self._classes, self._flows = FairClock(), {False: FairClock(), True: FairClock()}  # by Kind.document
        self._prefill_seconds, self._step_seconds = 1e-4, 0.0  # of a padded token; of a step of short requests
        self._token_seconds = dict.fromkeys(KINDS, 1e-4)  # all that a token of a row takes

    def __len__(self) -> int:
        """Jobs that are not answered."""
        return len(self._jobs)

    def jobs_of(self, model: str) -> list[int]:
        return [id for id, sequence in self._jobs.items() if sequence.job.model == model]

    @property
    def running(self) -> list[Sequence]:
        return [sequence for queue in self.queues.values() for sequence in queue.running.values()]

    @property
    def prices(self) -> tuple[float, float]:
        """Returns the measured seconds of a token and row of a short request, and of a token of a look."""
        return self._token_seconds[SHORT], self._token_seconds[LOOK]

    def add(self, job: Job, now: float) -> None:
        """Accepts a job for an open model with enough slots. A target that is only scored is the next of its client, because a
        sentence waits for it that was already translated."""
        self._jobs[job.id] = sequence = Sequence(job, now, job.alone)
        if sequence.alone:
            self._alone.append(sequence)
        else:
            self.queues[job.model].push(sequence, first=job.options.target is not None and job.look is None)

    def finish(self, id: int) -> Sequence | None:
        """Removes a job that is answered or cancelled, and frees its slots. Returns None where it is unknown."""
        sequence = self._jobs.pop(id, None)
        if sequence is not None:
            self._remove(sequence)
            sequence.answered = True
            if sequence.hypotheses or sequence.kind.look:
                more = sequence.seconds / sequence.length / sequence.width - self._token_seconds[sequence.kind]
                self._token_seconds[sequence.kind] += 0.05 * more
        return sequence

    def restart(self, sequence: Sequence) -> None:
        """Runs a job again from its start, alone, after a step of its batch failed."""
        self._remove(sequence)
        sequence.reset()
        sequence.alone = True
        self._alone.append(sequence)

    def record_prefill(self, sequences: Items[Sequence], seconds: float) -> None:
        padded = len(sequences) * max(sequence.length for sequence in sequences)
        self._prefill_seconds += 0.2 * (seconds / padded - self._prefill_seconds)
        self.charge(sequences, [sequence.length for sequence in sequences], seconds)

    def record_step(self, sequences: Items[Sequence], seconds: float, steps: int) -> None:
        rows = [sequence.width for sequence in sequences]
        self.queues[sequences[0].job.model].step_time.record(sum(rows), seconds / steps)
        if not sequences[0].kind.document:
            self._step_seconds += 0.2 * (seconds / steps - self._step_seconds)
        self.charge(sequences, rows, seconds)

    def charge(self, sequences: Items[Sequence], parts: Items[int], seconds: float) -> None:
        """Divides the seconds of some work among its jobs, which are of one kind, by their parts, and charges their flows."""
        kind, second, used = sequences[0].kind, seconds / sum(parts), dict[str, float]()
        for sequence, part in zip(sequences, parts, strict=True):
            job = sequence.job
            sequence.seconds += second * part
            used[job.client] = used.get(job.client, 0.0) + second * part / job.weight
        for client, by_weight in used.items():
            self._flows[kind.document].charge((kind, client), by_weight / kind.weight)
        self._classes.charge(kind.document, seconds / (_DOCUMENT_WEIGHT if kind.document else 1.0))

    def schedule(self) -> SchedulerOutput:
        """Admits jobs and returns what runs. While there are jobs, every output advances at least one."""
        if len(self._jobs) == 1 and not self._alone:
            [sequence] = self._jobs.values()
            if not sequence.kind.look:
                return self._only(sequence)
        output, lacking = SchedulerOutput(), set[str]()
        if self._alone and not self.running:
            self.queues[self._alone[0].job.model].start(self._alone[0])
            output.looks = LookGroup([self._alone[0]]) if self._alone[0].kind.look else None
            output.prefill += [(sequence.job.model, [sequence]) for sequence in self.running]
        if self._alone and self._alone[0].running:
            output.decode += [(sequence.job.model, [sequence]) for sequence in self.running]
            return output
        turns = self._turns()
        beside = any(not kind.document for *_, kind in turns)
        for _, used, kind in turns:
            longest = max(kind.longest if beside else SHORT.longest, _TURN_STEPS * self._step_seconds)
            if kind.look and not self._alone:
                output.looks = self._look_group(kind, longest)
            for model, queue in self.queues.items() if not kind.look else ():
                self._add_batch(output, kind, model, queue, longest, lacking)
            if output.decode or output.looks:
                self._classes.now = max(self._classes.now, turns[0][0])
                self._flows[kind.document].now = max(self._flows[kind.document].now, used)
                break
        return output

    def _only(self, sequence: Sequence) -> SchedulerOutput:
        """Returns the turn of the only job: the same as any other way would give, in less time."""
        kind, queue, batch = sequence.kind, self.queues[sequence.job.model], [(sequence.job.model, [sequence])]
        flows = self._flows[kind.document]
        self._classes.now = max(self._classes.now, self._classes.used(kind.document))
        flows.now = max(flows.now, flows.used((kind, sequence.job.client)))
        if sequence.running:
            return SchedulerOutput(decode=batch)
        queue.start(sequence)
        return SchedulerOutput(prefill=batch, decode=batch)

    def _turns(self) -> list[tuple[float, float, Kind]]:
        """Returns the kinds that have jobs in fair order, each with the use of its class and of its first flow."""
        used: dict[Kind, float] = {}
        for queue in self.queues.values():
            for kind, flows in queue.flows.items():
                if flows:
                    clock = self._flows[kind.document]
                    first = min([clock.used((kind, client)) for client in flows])
                    used[kind] = min(first, used.get(kind, first))
        turns = [(self._classes.used(kind.document), first, kind) for kind, first in used.items()]
        return sorted(turns, key=lambda turn: turn[:2])

    def _in_order(
        self, queues: Iterable[ModelQueue], kind: Kind, accepts: Callable[[Sequence], bool]
    ) -> Iterator[Sequence]:
        """Yields waiting jobs in fair order, as if each were charged when it is yielded. A flow ends at the first job that is
        not accepted."""
        flows = [item for queue in queues for item in queue.flows[kind].items() if item[1].waiting]
        used = self._flows[kind.document].used
        heap = [(used((kind, client)), flow.waiting[0].id, iter(flow.waiting)) for client, flow in flows]
        heapq.heapify(heap)
        while heap:
            served, _, jobs = heapq.heappop(heap)
            job = next(jobs, None)
            if job is not None and accepts(job):
                yield job
                seconds = self._token_seconds[kind] * job.length * job.width
                heapq.heappush(heap, (served + seconds / kind.weight / job.job.weight, job.id, jobs))

    def _add_batch(
        self, output: SchedulerOutput, kind: Kind, model: str, queue: ModelQueue, longest: float, lacking: set[str]
    ) -> None:
        """Adds the sequences of a kind and model that decode, the oldest of each client first, and those that join them. Where
        one lacks slots, the slots that free up are left to it: the model is added to `lacking`."""
        each, rows, total = queue.client_rows(kind), Counter[str](), 0
        part = 1.0 if not kind.document else _DOCUMENT_SLOTS_BESIDE if queue.flows[SHORT] else _DOCUMENT_SLOTS
        most, tokens = part * queue.slots, min(self._max_batch_tokens, longest / self._prefill_seconds)

        def fits(sequence: Sequence) -> bool:
            held = rows[sequence.job.client]
            return not held or held + sequence.width <= each * sequence.job.weight

        def take(sequence: Sequence, batch: list[Sequence]) -> None:
            nonlocal total
            total += sequence.width
            if each < math.inf:
                rows[sequence.job.client] += sequence.width
            batch.append(sequence)

        batch: list[Sequence] = []
        for sequence in queue.running.values():
            if sequence.kind is kind and fits(sequence) and (not total or total + sequence.width <= most):
                take(sequence, batch)
        joining: list[Sequence] = []
        admits = queue.free and not self._alone and model not in lacking
        free, padded = len(queue.free), 0
        for sequence in self._in_order([queue], kind, fits) if admits else ():
            free, padded = free - sequence.width, max(padded, sequence.length)
            if free < 0:
                lacking.add(model)
            full = total and total + sequence.width > most
            if free < 0 or full or (joining and padded * (len(joining) + 1) > tokens):
                break
            take(sequence, joining)
        for sequence in joining:
            queue.start(sequence)
        output.prefill += [(model, joining)] if joining else []
        output.decode += [(model, batch + joining)] if batch or joining else []

    def _look_group(self, kind: Kind, longest: float) -> LookGroup | None:
        """Returns the looks of a kind that have begun, or the next ones that one pass computes together."""
        looks: list[Sequence] = []
        if kind in self._groups:
            return self._groups[kind]
        for look in self._in_order(self.queues.values(), kind, lambda look: not looks or look.together_with(looks[0])):
            tokens = look.length + sum(other.length for other in looks)
            if looks and (len(looks) == _MOST_LOOKS or tokens * self._token_seconds[kind] > longest):
                break
            looks.append(look)
        for look in looks:
            self.queues[look.job.model].start(look)
        if looks:
            self._groups[kind] = LookGroup(looks)
        return self._groups.get(kind)

    def _remove(self, sequence: Sequence) -> None:
        """Removes a job from the place where it waits or runs."""
        if sequence.alone:
            self._alone.remove(sequence)
        elif sequence.running and sequence.kind.look:
            group = self._groups[sequence.kind]
            group.requests.remove(sequence)
            if not group.requests:
                del self._groups[sequence.kind]
        self.queues[sequence.job.model].remove(sequence)
