"""The worker process: schedule -> run -> postprocess, until the API process says Drain or goes away.

Started by the supervisor as `python -m server.engine.worker.main READ_FD WRITE_FD INDEX OPTIONS`. One thread does all that
touches jobs; loading and compiling happen beside it and are picked up between steps.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from collections.abc import Sequence as Items
from functools import partial

from server.engine.ipc.messages import (
    Answer,
    AttentionJob,
    Cancel,
    Drain,
    Drained,
    Failed,
    FromWorker,
    LoadModel,
    ModelUnloaded,
    Progress,
    Started,
    Timings,
    ToWorker,
    TranslateJob,
    TranslationResult,
    UnloadModel,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.ipc.transport import Pipes
from server.engine.worker.runner_interface import Runner
from server.engine.worker.scheduler import Scheduler, Turn
from server.engine.worker.sequence import Look, Sequence
from server.engine.worker.step_stats import Ledger
from server.gc_tuning import tune_garbage_collector

_TELL_SECONDS = 0.1
"""Statistics and progress are told at most this often while work goes on."""
_LOOK_SECONDS = 0.02
"""How often an idle worker looks whether a model that is loading beside it is ready."""


class Worker:
    """One device's loop. `runner` touches the device, `Scheduler` decides, this class carries messages between them."""

    def __init__(self, pipes: Pipes, runner: Runner, options: WorkerOptions) -> None:
        self._pipes = pipes
        self._runner = runner
        self._scheduler = Scheduler(options.max_batch_tokens, options.max_attention_jobs)
        self._ledger = Ledger()
        self._outbox: list[FromWorker] = []
        self._told = time.monotonic()
        self._shown: dict[int, int] = {}
        self._ready: WorkerReady | None = None
        self._draining = False

    def serve(self) -> None:
        """Work until drained or until the API process is gone."""
        while not self._pipes.closed:
            self._announce()
            if self._draining and not len(self._scheduler):
                self._pipes.send([*self._outbox, Drained()])
                return
            self._flush()
            self._read()
            turn = self._scheduler.schedule(time.monotonic())
            self._run(turn)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        wait = 0.0 if len(self._scheduler) else (_LOOK_SECONDS if self._runner.loading() else None)
        for message in self._pipes.receive(wait):
            self._handle(message)

    def _handle(self, message: ToWorker) -> None:
        match message:
            case TranslateJob() | AttentionJob():
                self._accept(message)
            case Cancel(id=id):
                self._answer(Failed(id, "cancelled", "The request was cancelled."))
            case LoadModel(model=model, folder=folder):
                self._runner.load(model, folder)
            case UnloadModel(model=model):
                if not self._scheduler.close(model):
                    self._outbox.append(ModelUnloaded(model))
            case Drain():
                self._draining = True

    def _accept(self, job: TranslateJob | AttentionJob) -> None:
        lane = self._scheduler.lane(job.model)
        if lane is None:
            self._outbox.append(Failed(job.id, "unknown_model", f"There is no model named {job.model}."))
        elif (refusal := self._runner.refusal(lane.number, job)) is not None:
            self._outbox.append(Failed(job.id, "invalid", refusal))
        elif isinstance(job, TranslateJob):
            if job.options.beam_size > lane.slots:
                sentence = f"beam_size must be at most {lane.slots} on this server."
                self._outbox.append(Failed(job.id, "invalid", sentence))
            else:
                self._scheduler.add(job, time.monotonic())
        elif not self._scheduler.look(job, time.monotonic()):
            self._outbox.append(Failed(job.id, "overloaded", "Too many looks inside are waiting; try again soon."))

    def _announce(self) -> None:
        """Take in models that finished loading beside the loop and let go of those that are over."""
        for loaded in self._runner.loaded():
            if loaded.answer.error is None:
                lane = self._scheduler.open(loaded.model, loaded.slots, same=not loaded.announce)
                self._runner.attach(lane.number, loaded)
            if loaded.announce:
                self._outbox.append(loaded.answer)
        for lane in self._scheduler.retire():
            self._runner.detach(lane.number)
            if self._scheduler.lane(lane.model) is None:
                self._outbox.append(ModelUnloaded(lane.model))
        ready = self._runner.ready()
        if ready != self._ready:
            self._ready = ready
            self._outbox.insert(0, ready)

    def _flush(self) -> None:
        """Send answers at once, statistics and progress now and then and before the loop rests."""
        now = time.monotonic()
        if now - self._told >= _TELL_SECONDS or not len(self._scheduler):
            self._told = now
            self._tell()
        if self._outbox:
            self._pipes.send(self._outbox)
            self._outbox = []

    def _tell(self) -> None:
        running = self._scheduler.running
        waiting = len(self._scheduler) - len(running)
        stats = self._ledger.close(len(running), waiting, self._scheduler.slots)
        if stats.steps or stats.prefill_sequences or stats.attention_jobs or self._outbox:
            self._outbox.insert(0, stats)
        for sequence in running:
            if sequence.job.stream:
                tokens = self._runner.progress(sequence)
                if len(tokens) > self._shown.get(sequence.id, 0):
                    self._shown[sequence.id] = len(tokens)
                    self._outbox.append(Progress(sequence.id, tokens))

    # -- one turn ------------------------------------------------------------------------------------------------------

    def _run(self, turn: Turn) -> None:
        for job in turn.expired:
            self._release(job)
            self._outbox.append(Failed(job.id, "deadline", "The translation was not ready within its time limit."))
        started = [sequence.id for _, newcomers in turn.prefill for sequence in newcomers]
        if turn.look is not None:
            started.append(turn.look.id)
        if started:
            self._pipes.send([Started(tuple(started))])
        for lane, newcomers in turn.prefill:
            self._guard(newcomers, partial(self._prefill, lane.number, newcomers))
        for lane in turn.decode:
            running = list(lane.running.values())
            if running:
                self._guard(running, partial(self._step, lane.number, running))
        if turn.look is not None:
            self._guard([turn.look], partial(self._attend, turn.look))

    def _prefill(self, lane: int, newcomers: list[Sequence]) -> None:
        begun = time.monotonic()
        self._runner.prefill(lane, newcomers)
        ended = time.monotonic()
        for sequence in newcomers:
            sequence.admitted, sequence.encoded = begun, ended
        lengths = [sequence.length for sequence in newcomers]
        self._ledger.prefill(lengths, ended - begun)
        self._scheduler.prefilled(len(lengths) * max(lengths), ended - begun)

    def _step(self, lane: int, running: list[Sequence]) -> None:
        begun = time.monotonic()
        stepped = self._runner.step(lane, running)
        ended = time.monotonic()
        self._scheduler.stepped((ended - begun) / stepped.steps)
        self._ledger.step(stepped.steps, sum(sequence.width for sequence in running), stepped.tokens, ended - begun)
        for sequence in running:
            sequence.first_token = sequence.first_token or (ended if sequence.steps else 0.0)
        for done in stepped.finished:
            sequence = done.sequence
            timings = Timings(
                queue=sequence.admitted - sequence.arrived,
                encode=sequence.encoded - sequence.admitted,
                decode=ended - sequence.encoded,
                first_token=sequence.first_token - sequence.arrived,
            )
            self._answer(TranslationResult(sequence.id, done.hypotheses, timings, sequence.steps, done.trace))

    def _attend(self, look: Look) -> None:
        begun = time.monotonic()
        answer = self._runner.attend(look)
        ended = time.monotonic()
        self._scheduler.looked(ended, ended - begun)
        self._ledger.attention(ended - begun)
        self._answer(answer)

    def _guard(self, jobs: Items[Sequence | Look], action: Callable[[], None]) -> None:
        """Run `action` for `jobs`. Should it fail, each runs again alone, and who fails alone is answered so. What
        breaks the device itself ends the process: the supervisor starts another and finds the culprit the same way."""
        try:
            action()
        except Exception as error:  # whatever a backend raises must reach every member of the batch
            kind = self._runner.blame(error)
            if kind is None:
                raise
            traceback.print_exc()
            for job in jobs:
                if job.gone:
                    continue
                if job.alone or isinstance(job, Look):
                    self._answer(Failed(job.id, kind, "The model could not process this text."))
                else:
                    self._release(job)
                    self._scheduler.again(job)

    def _answer(self, answer: Answer) -> None:
        """Answer a job; what it held is free for the next turn. Nothing happens if it was answered before."""
        job = self._scheduler.finish(answer.id)
        if job is not None:
            self._release(job)
            self._outbox.append(answer)

    def _release(self, job: Sequence | Look) -> None:
        self._shown.pop(job.id, None)
        if isinstance(job, Sequence) and job.slots:
            self._runner.release(job.lane, job)


def serve(arguments: Items[str], start: Callable[[WorkerOptions, int], Runner]) -> int:
    """Body of the process. `arguments` are READ_FD WRITE_FD INDEX OPTIONS; `start` makes the owner of device INDEX.

    Ctrl-C and SIGTERM reach a whole process group; when to stop is the API process's business, so both are ignored.
    """
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold what callers sent
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    read_fd, write_fd, index, text = arguments
    pipes = Pipes(int(read_fd), int(write_fd))
    options = WorkerOptions.from_json(text)
    runner = start(options, int(index))
    tune_garbage_collector()
    Worker(pipes, runner, options).serve()
    return 0


if __name__ == "__main__":
    from server.engine.worker.model_runner import DeviceRunner

    code = serve(sys.argv[1:], DeviceRunner)
    sys.stdout.flush()
    os._exit(code)  # threads that still load or compile are not waited for
