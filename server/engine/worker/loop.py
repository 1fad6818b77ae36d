"""The worker's loop: receive messages -> schedule -> run -> answer. One thread touches jobs; models
load in other threads."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from functools import partial

from server.engine.ipc.messages import (
    Answer,
    Cancel,
    Failed,
    FromWorker,
    Job,
    JobResult,
    LoadModel,
    Progress,
    Started,
    StepStats,
    Timings,
    ToWorker,
    UnloadModel,
    WorkerReady,
)
from server.engine.ipc.options import NO_DEVICE_STATUS, WorkerOptions
from server.engine.worker.connections import Connections
from server.engine.worker.device_config import NoDevice
from server.engine.worker.model_runner import ModelRunner
from server.engine.worker.scheduler import ModelQueue, Scheduler
from server.engine.worker.sequence import LOOK, SHORT, Sequence
from server.process import tune_garbage_collector

_REPORT_SECONDS = 0.1
"""Statistics and progress are sent at most this often while there is work."""
_LOADING_POLL_SECONDS = 0.02
"""How often an idle worker checks whether a model that is loading has finished."""


class WorkerLoop:
    """Passes messages between the API process, the Scheduler and the `runner` of the device."""

    def __init__(self, pipes: Connections, runner: ModelRunner, options: WorkerOptions) -> None:
        self._pipes = pipes
        self._runner = runner
        self._scheduler = Scheduler(options.max_batch_tokens)
        self._stats = StepStats()
        self._prefills: list[tuple[list[Sequence], Callable[[], float | None]]] = []
        """Prefills whose time is not known yet."""
        self._outbox: list[FromWorker] = []
        self._reported = time.monotonic()
        self._ready: WorkerReady | None = None

    def serve(self) -> None:
        """Runs until the pipe is closed."""
        while not self._pipes.closed:
            self._update_models()
            if not self._scheduler.jobs:  # the loop waits for messages
                self._flush()
            self._receive()
            batches = self._scheduler.schedule()
            self._announce(batches)
            self._flush()
            self._run(batches)

    # -- messages
    # ----------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        wait = _LOADING_POLL_SECONDS if self._runner.loading() else None
        if self._scheduler.jobs:
            wait = 0.0
        elif wait is None and self._stats.steps:  # not reported yet
            wait = max(0.0, self._reported + _REPORT_SECONDS - time.monotonic())
        for message in self._pipes.receive(wait):
            self._handle(message)

    def _handle(self, message: ToWorker) -> None:
        match message:
            case Job():
                self._accept(message)
            case Cancel(id=id):
                self._answer(Failed(id, "cancelled", "The request was cancelled."))
            case LoadModel(model=model, folder=folder, ends=ends):
                self._runner.load(model, folder, ends)
            case UnloadModel(model=model):
                for sequence in [*self._scheduler.jobs.values()]:
                    if sequence.job.model == model:
                        self._answer(_unknown_model(sequence.id, model))
                del self._scheduler.queues[model]
                self._runner.unload(model)

    def _accept(self, job: Job) -> None:
        queue = self._scheduler.queues.get(job.model)
        if queue is None:
            self._outbox.append(_unknown_model(job.id, job.model))
        elif (refusal := self._runner.refusal(job)) is not None:
            self._outbox.append(refusal)
        elif job.look is None and job.options.beam_size > queue.slots:
            sentence = (
                f"A beam of {job.options.beam_size} hypotheses is too wide: this server has slots "
                f"for {queue.slots}; "
                "send a smaller beam_size or fewer alternatives."
            )
            self._outbox.append(Failed(job.id, "invalid", sentence))
        else:
            self._scheduler.add(job, time.monotonic())

    def _update_models(self) -> None:
        """Opens queues for models that finished loading."""
        for answer in self._runner.loaded():
            if answer.error is None:
                model = answer.model
                queue = ModelQueue(self._runner.slots(model), self._runner.reads_known(model))
                self._scheduler.queues[model] = queue
            self._outbox.append(answer)
        ready = self._runner.ready()
        if ready != self._ready:
            self._ready = ready
            self._outbox.insert(0, ready)

    def _flush(self) -> None:
        """Sends all messages as one frame. Adds statistics and progress at intervals, and before
        the loop waits, unless they would wake a process that gets no answer."""
        now = time.monotonic()
        waits = not (self._scheduler.jobs or self._pipes.shared)
        if now - self._reported >= _REPORT_SECONDS or waits:
            self._reported = now
            self._report()
        if self._outbox:
            self._pipes.send(self._outbox)
            self._outbox = []

    def _report(self) -> None:
        running = self._scheduler.running
        stats, self._stats = self._stats, StepStats()
        stats.running, stats.waiting = len(running), len(self._scheduler.jobs) - len(running)
        queues = self._scheduler.queues.values()
        seconds = self._scheduler.token_seconds
        stats.token_seconds, stats.look_seconds = seconds[SHORT], seconds[LOOK]
        stats.slots_total = sum(queue.slots for queue in queues)
        stats.slots_used = stats.slots_total - sum(len(queue.free) for queue in queues)
        # A worker that loads is not silent: the supervisor sees whether it is frozen.
        if stats.steps or stats.prefill_sequences or self._outbox or self._runner.loading():
            self._outbox.insert(0, stats)
        for sequence in running:
            if sequence.job.stream and (tokens := self._runner.progress(sequence)):
                self._outbox.append(Progress(sequence.id, tokens))

    # -- one step
    # ----------------------------------------------------------------------------------------------

    def _announce(self, batches: list[list[Sequence]]) -> None:
        """Reports the jobs that run from now on, before they can end the process."""
        newcomers = [job.id for batch in batches for job in batch if not job.admitted]
        if newcomers:
            self._outbox.append(Started(tuple(newcomers)))

    def _run(self, batches: list[list[Sequence]]) -> None:
        for batch in batches:
            if batch[0].kind.look:
                self._guard(batch, partial(self._attend, batch))
                continue
            model = batch[0].job.model
            newcomers = [sequence for sequence in batch if not sequence.admitted]
            if newcomers:
                self._guard(newcomers, partial(self._prefill, model, newcomers))
            running = [sequence for sequence in batch if sequence.slots]
            if running:
                # Those that pause may have steps on the device.
                queue = self._scheduler.queues[model]
                beside = (sequence for sequence in queue.running.values() if sequence.slots)
                self._guard(beside, partial(self._step, model, running))

    def _prefill(self, model: str, admitted: list[Sequence]) -> None:
        started = time.monotonic()
        self._prefills.append((admitted, self._runner.prefill(model, admitted)))
        for sequence in admitted:
            sequence.admitted = started
        self._record_prefills()
        lengths = [sequence.length for sequence in admitted]
        self._stats.prefill_sequences += len(lengths)
        self._stats.prefill_tokens += sum(lengths)
        self._stats.prefill_padded_tokens += len(lengths) * max(lengths)

    def _record_prefills(self) -> float:
        """Records the prefills that have ended. Returns their seconds."""
        total = 0.0
        while self._prefills and (seconds := self._prefills[0][1]()) is not None:
            admitted, _ = self._prefills.pop(0)
            for sequence in admitted:
                sequence.encoded = sequence.admitted + seconds
            self._scheduler.record_prefill(admitted, seconds)
            total += seconds
        return total

    def _step(self, model: str, running: list[Sequence]) -> None:
        started = time.monotonic()
        advanced, steps = self._runner.step(model, running)
        if not advanced:
            return
        ended = time.monotonic()
        # a GPU encodes when the step is read
        seconds = max(0.0, ended - started - self._record_prefills())
        self._scheduler.record_step(advanced, seconds, steps)
        rows = sum(sequence.width for sequence in advanced)
        self._stats.steps += [(rows, seconds / steps)] * steps
        for sequence in advanced:
            sequence.first_token = sequence.first_token or (ended if sequence.steps else 0.0)
            if sequence.hypotheses:
                self._answer(_translation_result(sequence, ended))
            elif not sequence.finite:
                self._answer(Failed(sequence.id, "internal", self._runner.not_finite))

    def _attend(self, looks: list[Sequence]) -> None:
        started = time.monotonic()
        passes = looks[0].passes or self._runner.attend([look.job for look in looks])
        for look in looks:
            look.admitted, look.passes = started, passes
        answers = next(passes)
        seconds = time.monotonic() - started
        self._scheduler.charge(looks, [look.length for look in looks], seconds)
        for answer in answers or ():
            self._answer(answer)

    def _guard(self, jobs: Iterable[Sequence], action: Callable[[], None]) -> None:
        """Runs `action` for `jobs`. If it raises, each job runs again alone, and one that fails
        alone is answered with the failure. An error that breaks the device ends the process, and
        the supervisor isolates its jobs in the same way."""
        try:
            action()
        except Exception as error:  # whatever a backend raises must reach every member of the batch
            kind = self._runner.failure_kind(error)
            if kind is None:
                raise
            traceback.print_exc()
            for job in list(jobs):
                if job.alone:
                    self._answer(Failed(job.id, kind, "The model could not process this text."))
                else:
                    self._runner.release(job)
                    self._scheduler.restart(job)

    def _answer(self, answer: Answer) -> None:
        """Answers a job and frees its slots, unless it was answered before."""
        job = self._scheduler.finish(answer.id)
        if job is not None:
            self._runner.release(job)
            self._outbox.append(answer)


def _unknown_model(id: int, model: str) -> Failed:
    return Failed(id, "unknown_model", f"There is no model named {model}.")


def _translation_result(sequence: Sequence, ended: float) -> JobResult:
    timings = Timings(
        queue=sequence.admitted - sequence.arrived,
        encode=sequence.encoded - sequence.admitted,
        decode=ended - sequence.encoded,
        first_token=sequence.first_token - sequence.arrived,
    )
    return JobResult(sequence.id, sequence.hypotheses, timings, sequence.steps, sequence.trace)


def serve(
    arguments: Items[str], make_runner: Callable[[WorkerOptions, int, bool], ModelRunner]
) -> int:
    """Sets up a worker process, runs its loop, and returns the exit code. `arguments` are INDEX
    OPTIONS [GPU], where GPU is the UUID of the only one that it sees; `make_runner` makes the
    runner of device INDEX. Messages pass through standard input and output; what libraries print
    goes to standard error."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would contain texts of callers
    # A service manager sends signals to all processes; the API process decides when workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    index, text, *gpu = arguments
    reader, writer = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    options = WorkerOptions.from_json(text)
    try:
        runner = make_runner(options, int(index), bool(gpu))
    except NoDevice as reason:
        sys.stderr.write(f"{reason}\n")
        return NO_DEVICE_STATUS
    tune_garbage_collector()
    path = options.socket_of(int(index)) if options.sockets else ""
    WorkerLoop(Connections(reader, writer, path), runner, options).serve()
    return 0
