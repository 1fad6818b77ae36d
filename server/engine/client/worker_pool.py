"""WorkerPool: the workers, one for each device. Starts and stops them, loads models into them, and
runs jobs on them through crashes and restarts.

Unanswered jobs of an ended worker are sent again. Those it was computing are recorded in the
CrashHistory.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeVar

from server.engine.client.crash_history import MAX_ENDS_ALONE, CrashHistory, fingerprint
from server.engine.client.model_pool import UNLOADED, EngineModel, ModelHandle
from server.engine.client.status import WorkerFailure, WorkerStatus
from server.engine.client.worker_supervisor import (
    COMMAND,
    WorkerEvent,
    WorkerExit,
    WorkerSupervisor,
)
from server.engine.ipc.messages import (
    Cancel,
    Failed,
    FailureKind,
    Job,
    JobResult,
    LoadModel,
    ModelLoaded,
    Progress,
    StepStats,
    WorkerReady,
)
from server.engine.ipc.options import NO_DEVICE, WorkerOptions

USUAL_PRICES = 3e-4, 1.5e-4
"""Seconds of a token of a row and of a token of a look, before a worker has measured them."""
MAX_FAILURES = 5
"""Failures in a row after which jobs do not wait for a worker."""
SHUTDOWN = "The server is shutting down."
NO_WORKER = "The model worker does not start; the server's log says why."
_REJECTED = "The model worker failed on this text each time; it is not tried again."
_TICK = 1.0
_EXIT_SECONDS, _KILL_SECONDS = 2.0, 10.0
"""Seconds in which a worker exits after its pipe was closed, and after SIGKILL."""

_log = logging.getLogger("attentive.worker")
Event = TypeVar("Event")
OnProgress = Callable[[tuple[int, ...]], None]


@dataclass(slots=True, eq=False)
class InFlightJob:
    """An accepted job. `worker` is None while none can take it; `shown` is the number of tokens that
    were reported as progress."""

    job: Job
    future: asyncio.Future[Any]
    on_progress: OnProgress | None = None
    worker: WorkerSupervisor | None = None
    shown: int = 0

    def fail(self, kind: FailureKind, message: str) -> None:
        if not self.future.done():
            self.future.set_exception(WorkerFailure(kind, message))


class WorkerPool:
    """Runs the worker processes; belongs to one event loop.

    `on_stats` is called with every StepStats of a worker. Every future of `submit` resolves with an
    answer or WorkerFailure; cancelling it cancels the job. `command` starts a worker process.
    """

    def __init__(
        self,
        options: WorkerOptions,
        on_stats: Callable[[StepStats], None],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._options, self._on_stats, self._command = options, on_stats, command
        self._workers: list[WorkerSupervisor] = []
        self._models: dict[str, ModelHandle] = {}
        self._jobs: dict[int, InFlightJob] = {}
        self._ids = count(1)
        self._crashes = CrashHistory()
        self._watchdog: asyncio.Task[None] | None = None
        self._closed = False
        self.on_failed: Callable[[EngineModel, str], None] = lambda model, error: None
        """Called with a model that cannot be loaded and the reason, before those who wait for it."""
        self.rests = False
        """Whether workers without a model count as ready, because unused models are unloaded."""

    # -- lifetime
    # ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the workers in the background; `status().ready` becomes true later."""
        self._watchdog = asyncio.create_task(self._tick())
        self._add_worker()

    async def stop(self, grace_seconds: float) -> None:
        """Lets jobs finish for at most `grace_seconds`, then fails the others and ends the
        workers."""
        end = time.monotonic() + grace_seconds
        while self._jobs and (left := end - time.monotonic()) > 0:
            await asyncio.wait([item.future for item in self._jobs.values()], timeout=left)
            await asyncio.sleep(0)  # they are removed
        if self._jobs:
            _log.warning("%d jobs did not finish within --grace-seconds", len(self._jobs))
        self._closed = True
        for model in self._models.values():
            model.resolve(SHUTDOWN)
        for item in list(self._jobs.values()):
            item.fail("cancelled", SHUTDOWN)
        for kill in (False, True):
            for worker in self._workers:
                worker.stop(kill=kill)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILL_SECONDS if kill else _EXIT_SECONDS):
                    while any(worker.pid for worker in self._workers):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
        if self._watchdog is not None:
            self._watchdog.cancel()

    def _add_worker(self, gpu: str | None = None) -> None:
        worker = WorkerSupervisor(len(self._workers), self._options, self._command, self._on_event)
        worker.gpu = gpu
        self._workers.append(worker)
        worker.start()

    def _use_gpus(self, first: WorkerReady) -> None:
        """Starts a worker for each further GPU, in the number format of the first one."""
        self._options = self._workers[0].options = dataclasses.replace(
            self._options,
            dtype=first.dtype,  # type: ignore[arg-type]
        )
        self._workers[0].gpu = first.gpus[0]
        for gpu in first.gpus[1:]:
            self._add_worker(gpu)

    async def _tick(self) -> None:
        """Runs the watchdogs. After a pause of this process a tick counts as two at most, so that
        messages are read before a worker counts as hung."""
        tick = min(_TICK, self._options.watchdog_seconds / 4)
        before = time.monotonic()
        while True:
            await asyncio.sleep(tick)
            now = time.monotonic()
            for worker in self._workers:
                worker.tick(min(now - before, 2 * tick))
            before = now

    def abort(self, index: int, pid: int, reason: str) -> None:
        """Kills a worker on which jobs of an API process hang, if it is still the process `pid`."""
        if self._workers[index].pid == pid:
            self._workers[index].abort(reason)

    # -- models
    # ----------------------------------------------------------------------------------------------

    async def load(self, model: ModelHandle) -> ModelLoaded:
        """Loads a model into every worker that does not have it; waits for a worker that is starting.
        `error` of the answer says why it cannot be loaded."""
        known = self._models.get(model.key)
        if known is None or known.error is not None:
            known = self._models[model.key] = model
        known.unloading = False
        self._crashes.clear()
        for worker in self._workers:
            worker.refused.discard(model.key)
            self._load_next(worker)
        return await known.answer()

    async def unload(self, model: ModelHandle) -> None:
        """Accepts no further jobs for a model, and unloads it after those accepted, unless
        `unloading` is reset before."""
        model.unloading = True
        if futures := [item.future for item in self._jobs.values() if item.job.model == model.key]:
            await asyncio.wait(futures)
        if not model.unloading or self._models.get(model.key) is not model:
            return
        model.resolve(UNLOADED)
        del self._models[model.key]
        for worker in self._workers:
            if model.key in worker.loaded:
                worker.unload(model.key)

    def _load_next(self, worker: WorkerSupervisor) -> None:
        if worker.ready is None or worker.loading is not None or self._closed:
            return
        for model in self._models.values():
            if model.key not in worker.loaded | worker.refused and model.error is None:
                worker.load(LoadModel(model.key, str(model.model.folder), model.ends))
                return

    def _fail(self, model: ModelHandle, error: str) -> None:
        """Ends the load of a model with an error. Workers that have it still serve it."""
        model.error = error
        if not (
            model.outcome.done() and any(model.key in worker.loaded for worker in self._workers)
        ):
            _notify(lambda error: self.on_failed(model.model, error), error)
            model.fail(error)

    # -- jobs
    # ----------------------------------------------------------------------------------------------

    def submit(self, job: Job, on_progress: OnProgress | None = None) -> asyncio.Future[Any]:
        """Gives a job its id, and runs it when a worker can take it. `on_progress` receives the tokens
        so far of a job with `stream`."""
        job.id = next(self._ids)
        item = self._jobs[job.id] = InFlightJob(
            job, asyncio.get_running_loop().create_future(), on_progress
        )
        item.future.add_done_callback(partial(self._remove, item))
        if (model := self._models.get(job.model)) is not None and model.unloading:
            item.fail("unknown_model", f"There is no model named {job.model}.")
        self._dispatch(item)
        return item.future

    def _dispatch(self, item: InFlightJob) -> None:
        """Sends a job to a worker, keeps it while none can take it, or fails it."""
        if item.future.done():
            return
        job = item.job
        model, ends_alone = self._models.get(job.model), self._crashes.ends_alone(job)
        item.worker = worker = self._least_loaded(job.model, suspected=ends_alone is not None)
        if self._closed:
            item.fail("cancelled", SHUTDOWN)
        elif model is None:
            item.fail("unknown_model", f"There is no model named {job.model}.")
        elif ends_alone is not None and ends_alone >= MAX_ENDS_ALONE:
            item.fail("poison", _REJECTED)
        elif worker is not None:
            worker.send(job if ends_alone is None else dataclasses.replace(job, alone=True))
        elif model.error is not None:
            item.fail("unknown_model", f"The model {job.model} could not be loaded.")
        elif self._broken:
            item.fail("unavailable", NO_WORKER)

    def _dispatch_waiting(self) -> None:
        for item in [item for item in self._jobs.values() if item.worker is None]:
            self._dispatch(item)

    def _least_loaded(self, model: str, *, suspected: bool) -> WorkerSupervisor | None:
        """Returns the worker with the fewest jobs of those that can run a model now, a frozen one
        only without another. A suspected job does not run beside a load, which may also end the
        worker."""
        able = [
            worker
            for worker in self._workers
            if worker.ready is not None and model in worker.loaded
        ]
        if suspected:
            able = [worker for worker in able if worker.loading is None]
        if len(able) == 1:
            return able[0]
        return min(
            able, key=lambda worker: (worker.state == "frozen", len(worker.pending)), default=None
        )

    def _remove(self, item: InFlightJob, _: asyncio.Future[Any]) -> None:
        if item.worker is not None and item.job.id in item.worker.pending:
            item.worker.send(Cancel(item.job.id))
        self._jobs.pop(item.job.id, None)

    @property
    def _broken(self) -> bool:
        return bool(self._workers) and all(
            worker.no_device or worker.failures >= MAX_FAILURES for worker in self._workers
        )

    # -- state
    # ----------------------------------------------------------------------------------------------

    @property
    def computation(self) -> tuple[str, ...]:
        """Device, number format and decode path, on which translations may depend; empty while no
        worker is up or the workers differ."""
        ready = [worker.ready for worker in self._workers if worker.ready is not None]
        computations = {worker.computation for worker in ready}
        return computations.pop() if len(computations) == 1 else ()

    @property
    def prices(self) -> tuple[float, float]:
        """Seconds of a device for a token of a translation's row and a token of a look."""
        stats = [
            worker.stats
            for worker in self._workers
            if worker.stats is not None and worker.stats.token_seconds
        ]
        if not stats:
            return USUAL_PRICES
        return (
            sum(each.token_seconds for each in stats) / len(stats),
            sum(each.look_seconds for each in stats) / len(stats),
        )

    @property
    def up(self) -> int:
        """Number of workers that take jobs."""
        return sum(worker.ready is not None for worker in self._workers)

    @property
    def failures(self) -> tuple[int, ...]:
        return tuple([worker.failures for worker in self._workers])

    def status(self) -> WorkerStatus:
        up = [worker for worker in self._workers if worker.ready is not None]
        first = up[0].ready if up else None
        served = {name for worker in up for name in worker.loaded}
        models = self._models.values()
        expected = {
            model.key
            for model in models
            if model.outcome.done() and not model.error and not model.unloading
        }
        able = [worker for worker in up if worker.state == "up"]
        ready = any((worker.loaded or self.rests) and expected <= worker.loaded for worker in able)
        if not ready and not self._broken:
            served |= expected
        return WorkerStatus(
            ready=ready,
            device=first.device if first else self._options.device,
            dtype=first.dtype if first else self._options.dtype,
            engine=first.engine if first else "",
            details=dict(first.details) if first else {},
            restarts=sum(worker.restarts for worker in self._workers),
            models=tuple(sorted(served)),
            errors={model.key: model.error for model in models if model.error is not None},
            workers=tuple(worker.status() for worker in self._workers),
            in_flight=len(self._jobs),
            no_device=any(worker.no_device for worker in self._workers),
            reports=tuple(worker.stats for worker in self._workers if worker.stats is not None),
        )

    # -- events of the workers
    # -----------------------------------------------------------------------------------------

    def _on_event(self, worker: WorkerSupervisor, event: WorkerEvent) -> None:
        match event:
            case JobResult() | Failed():
                self._on_answer(event)
            case Progress(id=id, tokens=tokens):
                item = self._jobs.get(id)  # tokens may have been reported before a restart
                if item is not None and item.on_progress is not None and len(tokens) > item.shown:
                    item.shown = len(tokens)
                    _notify(item.on_progress, tokens)
            case StepStats():
                _notify(self._on_stats, event)
            case WorkerReady(gpus=gpus):
                if gpus and worker.gpu is None:  # the first worker has listed them
                    self._use_gpus(event)
                self._load_next(worker)
            case ModelLoaded():
                self._on_loaded(worker, event)
            case WorkerExit():
                self._on_exit(worker, event)

    def _on_answer(self, answer: JobResult | Failed) -> None:
        item = self._jobs.get(answer.id)
        if item is None or item.future.done():
            return
        self._crashes.forget(item.job)
        if isinstance(answer, Failed):
            item.fail(answer.kind, answer.message)
        else:
            item.future.set_result(answer)

    def _on_loaded(self, worker: WorkerSupervisor, loaded: ModelLoaded) -> None:
        """Records a load, which has ended when all workers have answered, sends the jobs that waited
        for it, and loads the next model. Unloads a model that was unloaded in the meantime."""
        model = self._models.get(loaded.model)
        if model is None:
            if loaded.model in worker.loaded:
                worker.unload(loaded.model)
        else:
            if loaded.error is None:
                model.loaded = loaded
            up = [other for other in self._workers if other.ready is not None]
            if all(model.key in other.loaded | other.refused for other in up):
                self._settle(
                    model, [other for other in up if model.key in other.refused], loaded.error
                )
        self._load_next(worker)
        self._dispatch_waiting()

    def _settle(
        self, model: ModelHandle, refused: Sequence[WorkerSupervisor], error: str | None
    ) -> None:
        if error is not None and not any(model.key in worker.loaded for worker in self._workers):
            self._fail(model, error)
            return
        if refused:
            names = ", ".join(worker.name for worker in refused)
            _log.error("%s: not served by %s, where it could not be loaded", model.key, names)
        model.ends = 0
        model.resolve()

    def _on_exit(self, worker: WorkerSupervisor, ended: WorkerExit) -> None:
        model = self._models.get(ended.loading.model) if ended.loading is not None else None
        if (
            model is not None
            and ended.loading is not None
            and (error := model.record_exit(ended.loading))
        ):
            self._fail(model, error)
        self._send_again(ended)
        if self._broken:
            for each in self._models.values():
                each.resolve(NO_DEVICE if worker.no_device else NO_WORKER)
        self._dispatch_waiting()

    def _send_again(self, ended: WorkerExit) -> None:
        for job in ended.running:
            self._crashes.record(fingerprint(job), job.alone)
            if (self._crashes.ends_alone(job) or 0) >= MAX_ENDS_ALONE:
                _log.error("job %d killed its worker again; it is not tried any more", job.id)
        if self._broken:
            self._crashes.clear()
        # Those that ended fewer workers are sent first, so that kills from outside hit different
        # jobs.
        for job in sorted(
            ended.pending, key=lambda job: (self._crashes.ends_alone(job) or 0, job.id)
        ):
            if (item := self._jobs.get(job.id)) is not None:
                self._dispatch(item)


def _notify(listener: Callable[[Event], None], event: Event) -> None:
    """Calls a listener; logs its exceptions."""
    try:
        listener(event)
    except Exception:  # noqa: BLE001  a callback may raise anything
        _log.exception("a listener of the workers failed")
