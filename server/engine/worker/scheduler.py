"""Decides which jobs run next: which sequences join the running batch, and when looks run. Pure Python.

output = scheduler.schedule(now)   # which sequences to prefill, which queues to decode, which looks to run
scheduler.finish(id)               # answered: the slots are free for the next call
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

from server.engine.ipc.messages import Job
from server.engine.worker.device_time import DeviceTime
from server.engine.worker.fair_queue import FairQueue, LookQueue
from server.engine.worker.sequence import AttentionRequest, LookGroup, Sequence

_TRANSLATION_SHARE = 3.0
"""After an attention pass of t seconds, waiting and running translations have the device for _TRANSLATION_SHARE * t."""


@dataclass(slots=True)
class SchedulerOutput:
    """The jobs to run now. The sequences of `prefill` are already among the running ones of their queue, and decode in
    the same step."""

    prefill: list[tuple[FairQueue, list[Sequence]]] = field(default_factory=list)
    decode: list[tuple[FairQueue, list[Sequence]]] = field(default_factory=list)
    looks: LookGroup | None = None


class Scheduler:
    """Schedules all models of one worker. `max_batch_tokens` bounds the padded source tokens of a prefill."""

    def __init__(self, max_batch_tokens: int) -> None:
        self._queues: dict[str, FairQueue] = {}
        self._jobs: dict[int, Sequence | AttentionRequest] = {}
        self._looks = LookQueue()
        self._group: LookGroup | None = None
        """The looks that have begun."""
        self._alone: deque[Sequence | AttentionRequest] = deque()
        self._isolated: Sequence | AttentionRequest | None = None
        """The job that runs alone now."""
        self._next_look = 0.0
        self.time = DeviceTime(max_batch_tokens)

    # -- models --------------------------------------------------------------------------------------------------------

    def open(self, model: str, slots: int) -> None:
        """Opens the queue of a model that was loaded."""
        self._queues[model] = FairQueue(model, slots)

    def close(self, model: str) -> None:
        """Removes the queue of a model whose jobs are all answered."""
        del self._queues[model]

    def queue(self, model: str) -> FairQueue | None:
        """Returns the queue of `model`."""
        return self._queues.get(model)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Jobs that are not answered."""
        return len(self._jobs)

    def jobs_of(self, model: str) -> list[int]:
        """Returns the ids of the jobs of `model` that are not answered."""
        return [id for id, job in self._jobs.items() if job.job.model == model]

    @property
    def running(self) -> list[Sequence]:
        return [sequence for queue in self._queues.values() for sequence in queue.running.values()]

    @property
    def slots(self) -> tuple[int, int]:
        """Slots in use, and all slots."""
        free = sum(len(queue.free) for queue in self._queues.values())
        total = sum(queue.slots for queue in self._queues.values())
        return total - free, total

    @property
    def _interactive(self) -> bool:
        """Whether interactive sequences run or wait."""
        return any(queue.interactive_needed for queue in self._queues.values())

    def add(self, job: Job, now: float) -> None:
        """Accepts a job for an open model with enough slots for its beams. A target that is only scored is the next of its
        client, because a sentence waits for it that was already translated."""
        self._jobs[job.id] = sequence = Sequence(job, now, job.alone)
        if sequence.alone:
            self._alone.append(sequence)
        else:
            self._queues[job.model].push(sequence, first=job.options.target is not None)

    def add_look(self, job: Job) -> None:
        """Accepts a look for an open model."""
        self._jobs[job.id] = request = AttentionRequest(job, job.alone)
        if request.alone:
            self._alone.append(request)
        else:
            self._looks.push(request)

    def finish(self, id: int) -> Sequence | AttentionRequest | None:
        """Removes a job that is answered or cancelled, and frees its slots. Returns None where it is unknown."""
        job = self._jobs.pop(id, None)
        if job is not None:
            self._remove(job)
            job.answered = True
        return job

    def restart(self, job: Sequence | AttentionRequest) -> None:
        """Runs a job again from its start, alone, after a step of its batch failed."""
        self._remove(job)
        if isinstance(job, Sequence):
            job.reset()
        job.alone = True
        self._alone.append(job)

    def record_prefill(self, sequences: Items[Sequence], seconds: float) -> None:
        """A prefill of these sequences took `seconds`."""
        self.time.record_prefill(len(sequences) * max(sequence.length for sequence in sequences), seconds)
        self._charge(sequences[0], seconds)

    def record_step(self, sequences: Items[Sequence], seconds: float, steps: int) -> None:
        """`steps` decode steps of these sequences took `seconds`."""
        self.time.record_step(seconds / steps)
        self._charge(sequences[0], seconds)

    def _charge(self, sequence: Sequence, seconds: float) -> None:
        if self._interactive or not sequence.document:
            self.time.charge(seconds, sequence.document)

    def record_looks(self, requests: Items[AttentionRequest], now: float, seconds: float) -> None:
        """A pass of looks, which ended now, took `seconds`."""
        self._looks.charge(requests, seconds)
        self._next_look = now + _TRANSLATION_SHARE * seconds

    # -- decisions -----------------------------------------------------------------------------------------------------

    def schedule(self, now: float) -> SchedulerOutput:
        """Admits jobs and returns what runs. While there are jobs, every output advances at least one."""
        output = SchedulerOutput()
        if self._isolated is None and self._alone:
            if not any(queue.running for queue in self._queues.values()):
                self._isolate(output)
        elif self._isolated is None:
            self._admit(output)
            self._schedule_look(output, now)
        due = self.time.documents_due or not any(queue.interactive_slots for queue in self._queues.values())
        for queue in self._queues.values():
            if batch := queue.next_batch(due):
                output.decode.append((queue, batch))
        return output

    def _admit(self, output: SchedulerOutput) -> None:
        """Moves waiting sequences into the running batches: documents, if they are due, and apart from them interactive
        ones, which leave free slots to a document that needs more than there are."""
        beside = self._interactive
        for queue in self._queues.values():
            if queue.free and queue.waiting:
                for documents in (True, False) if self.time.documents_due or not beside else (False,):
                    joining, full = self._joining(queue, documents, self.time.prefill_tokens(documents and beside))
                    for sequence in joining:
                        queue.start(sequence)
                    if joining:
                        output.prefill.append((queue, joining))
                    if full:
                        break

    def _joining(self, queue: FairQueue, documents: bool, max_tokens: int) -> tuple[list[Sequence], bool]:
        """Returns the waiting sequences of one kind that join the running batch: in fair order as many as have slots and at
        most `max_tokens` padded source tokens (a single sequence may have more). Returns too whether one lacks slots."""
        chosen: list[Sequence] = []
        longest, free = 0, len(queue.free)
        for sequence in queue.ordered(documents):
            longest = max(longest, sequence.length)
            if sequence.width > free:
                return chosen, True
            if chosen and longest * (len(chosen) + 1) > max_tokens:
                break
            chosen.append(sequence)
            free -= sequence.width
        return chosen, False

    def _isolate(self, output: SchedulerOutput) -> None:
        self._isolated = job = self._alone.popleft()
        if isinstance(job, AttentionRequest):
            job.running = True
            output.looks = LookGroup([job])
        else:
            queue = self._queues[job.job.model]
            queue.occupy(job)
            output.prefill.append((queue, [job]))

    def _schedule_look(self, output: SchedulerOutput, now: float) -> None:
        """Runs looks, after a pass not before translations had their share. Documents have none before a short request."""
        if not self._looks:
            return
        short = self._looks.short
        queues = self._queues.values()
        others = self._interactive if short else any(queue.running or queue.waiting for queue in queues)
        if not others or now >= self._next_look:
            self._group = output.looks = self._group or LookGroup(self._looks.batch())

    def _remove(self, job: Sequence | AttentionRequest) -> None:
        """Removes `job` from the place where it waits or runs."""
        queue = self._queues[job.job.model]
        if job is self._isolated:
            self._isolated = None
        if isinstance(job, Sequence) and job.running:
            queue.vacate(job)
        elif job.running:
            job.running = False
        elif job.alone:
            self._alone.remove(job)
        elif isinstance(job, AttentionRequest):
            self._looks.drop(job)
            if self._group is not None and job in self._group.requests:
                self._group.requests.remove(job)
                self._group = self._group if self._group.requests else None
        else:
            queue.drop(job)
