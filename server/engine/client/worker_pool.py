"""The workers, one for each device: starts and stops them, loads models into them, and accepts jobs as futures. No
torch."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from server.engine.client.job_dispatcher import NO_WORKER, SHUTDOWN, JobDispatcher, notify
from server.engine.client.model_handle import EngineModel, ModelHandle
from server.engine.client.status import WorkerStatus
from server.engine.client.worker_supervisor import COMMAND, WorkerEvent, WorkerExit, WorkerSupervisor
from server.engine.ipc.messages import (
    Failed,
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
"""Seconds of a token of a row and of one of a look, before a worker has measured them."""
UNLOADED = "The model was unloaded."
_TICK = 1.0
_EXIT_SECONDS, _KILL_SECONDS = 2.0, 10.0
"""Seconds a worker has to exit after its pipe was closed, and after SIGKILL."""

_log = logging.getLogger("attentive.worker")


class WorkerPool:
    """Runs the worker processes; every method belongs to one event loop.

    `on_stats` is called with every StepStats of a worker. Every future that `submit` returns resolves, with an answer or
    with WorkerFailure. Cancelling a future cancels the job. `command` starts a worker process.
    """

    def __init__(
        self, options: WorkerOptions, on_stats: Callable[[StepStats], None], command: Sequence[str] = COMMAND
    ) -> None:
        self._options, self._on_stats, self._command = options, on_stats, command
        self._workers: list[WorkerSupervisor] = []
        self._models: dict[str, ModelHandle] = {}
        self._jobs = JobDispatcher(self._workers, self._models)
        self._watchdog: asyncio.Task[None] | None = None
        self._closed = False
        self.on_failed: Callable[[EngineModel, str], None] = lambda model, error: None
        """Is called with a model that cannot be loaded, the first time or after a restart, and the reason, before those who wait
        for it go on."""
        self.rests = False
        """Whether models were unloaded because they were not used: then workers without a model are ready."""

    # -- lifetime ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the worker processes; returns at once. `status().ready` turns true later."""
        self._watchdog = asyncio.create_task(self._tick())
        self._add_worker()

    async def stop(self, grace_seconds: float) -> None:
        """Lets accepted jobs finish for at most `grace_seconds`, then ends the workers; the remaining jobs fail."""
        try:
            await asyncio.wait_for(self._jobs.idle.wait(), grace_seconds)
        except TimeoutError:
            _log.warning("%d jobs did not finish in the grace time", len(self._jobs))
        self._closed = True
        self._end_loads(SHUTDOWN)
        self._jobs.close()
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
        """Starts a worker for each further GPU, in the number format of the first one. Each stays with its GPU."""
        self._options = self._workers[0].options = dataclasses.replace(self._options, dtype=first.dtype)  # type: ignore[arg-type]
        self._workers[0].gpu = first.gpus[0]
        for gpu in first.gpus[1:]:
            self._add_worker(gpu)

    async def _tick(self) -> None:
        """Runs the watchdogs. After a pause of this process a tick counts as two at most, so messages are read
        first."""
        tick = min(_TICK, self._options.watchdog_seconds / 4)
        before = time.monotonic()
        while True:
            await asyncio.sleep(tick)
            now = time.monotonic()
            for worker in self._workers:
                worker.tick(min(now - before, 2 * tick))
            before = now

    def abort(self, index: int, pid: int, reason: str) -> None:
        """Kills a worker if it is still the process `pid`, on which jobs of an API process hang."""
        if self._workers[index].pid == pid:
            self._workers[index].abort(reason)

    # -- models --------------------------------------------------------------------------------------------------------

    async def load(self, model: ModelHandle) -> ModelLoaded:
        """Loads a model into every worker; waits for a worker that is still starting. One that is loaded is not loaded
        again. `error` of the answer says why it cannot be loaded."""
        known = self._models.get(model.key)
        if known is None or known.error is not None:
            known = self._models[model.key] = model
        known.unloading = False
        self._jobs.crashes.clear()
        for worker in self._workers:
            worker.refused.discard(model.key)
            self._load_next(worker)
        return await known.answer()

    async def unload(self, model: ModelHandle) -> None:
        """Accepts no further jobs for a model that was loaded, and unloads it when those accepted are finished, unless
        `unloading` is reset before."""
        model.unloading = True
        futures = self._jobs.futures(model.key)
        if futures:
            await asyncio.wait(futures)
        if not model.unloading or self._models.get(model.key) is not model:
            return
        model.resolve(UNLOADED)
        del self._models[model.key]
        for worker in self._workers:
            if model.key in worker.loaded:
                worker.unload(model.key)

    def _load_next(self, worker: WorkerSupervisor) -> None:
        """Loads the next model that a worker does not have, one at a time."""
        if worker.ready is None or worker.loading is not None or self._closed:
            return
        for model in self._models.values():
            if model.key not in worker.loaded | worker.refused and model.error is None:
                worker.load(LoadModel(model.key, str(model.model.folder), model.ends))
                return

    def _fail(self, model: ModelHandle, error: str) -> None:
        """Ends the load of a model with an error. Where it was served before, workers that have it go on."""
        model.error = error
        if not (model.outcome.done() and any(model.key in worker.loaded for worker in self._workers)):
            notify(lambda error: self.on_failed(model.model, error), error)
            model.fail(error)

    def _end_loads(self, error: str) -> None:
        for model in self._models.values():
            model.resolve(error)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def submit(self, job: Job, on_progress: Callable[[tuple[int, ...]], None] | None = None) -> asyncio.Future[Any]:
        """Runs a job, whose id is chosen here. `on_progress` receives the tokens so far of one with `stream`."""
        return self._jobs.accept(job, on_progress)

    @property
    def computation(self) -> tuple[str, ...]:
        """Device, number format and decode path of the workers, on which translations may depend. Empty while no worker
        is up, or while they differ."""
        computations = {worker.computation for worker in self._workers if worker.ready is not None}
        return computations.pop() if len(computations) == 1 else ()

    @property
    def prices(self) -> tuple[float, float]:
        """Returns the seconds of a device that a token of a translation's row and a token of a look take, as the workers reported
        lately."""
        stats = [worker.stats for worker in self._workers if worker.stats is not None and worker.stats.token_seconds]
        if not stats:
            return USUAL_PRICES
        return (
            sum(each.token_seconds for each in stats) / len(stats),
            sum(each.look_seconds for each in stats) / len(stats),
        )

    @property
    def up(self) -> int:
        """How many workers run and take jobs."""
        return sum(worker.ready is not None for worker in self._workers)

    @property
    def failures(self) -> tuple[int, ...]:
        """The failures in a row of each worker."""
        return tuple([worker.failures for worker in self._workers])

    def status(self) -> WorkerStatus:
        """Returns the state of the workers now."""
        up = [worker for worker in self._workers if worker.ready is not None]
        first = up[0].ready if up else None
        served = {name for worker in up for name in worker.loaded}
        models = self._models.values()
        expected = {model.key for model in models if model.outcome.done() and not model.error and not model.unloading}
        able = [worker for worker in up if worker.state == "up"]
        ready = any((worker.loaded or self.rests) and expected <= worker.loaded for worker in able)
        if not ready and not self._jobs.broken:
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

    # -- events of the workers -----------------------------------------------------------------------------------------

    def _on_event(self, worker: WorkerSupervisor, event: WorkerEvent) -> None:
        match event:
            case JobResult() | Failed():
                self._jobs.on_answer(event)
            case Progress():
                self._jobs.on_progress(event)
            case StepStats():
                notify(self._on_stats, event)
            case WorkerReady(gpus=gpus):
                if gpus and worker.gpu is None:  # the first worker has listed them
                    self._use_gpus(event)
                self._load_next(worker)
            case ModelLoaded():
                self._on_loaded(worker, event)
            case WorkerExit():
                self._on_exit(worker, event)

    def _on_loaded(self, worker: WorkerSupervisor, loaded: ModelLoaded) -> None:
        """Records a load, which has succeeded when all workers have answered and one has the model, sends the jobs that
        waited for it, and loads the next model. A model that was unloaded in the meantime is unloaded from this worker too."""
        model = self._models.get(loaded.model)
        if model is None:
            if loaded.model in worker.loaded:
                worker.unload(loaded.model)
        else:
            if loaded.error is None:
                model.loaded = loaded
            up = [other for other in self._workers if other.ready is not None]
            if all(model.key in other.loaded | other.refused for other in up):
                self._settle(model, [other for other in up if model.key in other.refused], loaded.error)
        self._load_next(worker)
        self._jobs.dispatch_backlog()

    def _settle(self, model: ModelHandle, refused: Sequence[WorkerSupervisor], error: str | None) -> None:
        """Every worker has answered a load: the model is served by those that could load it."""
        if error is not None and not any(model.key in worker.loaded for worker in self._workers):
            self._fail(model, error)
            return
        if refused:
            names = ", ".join(worker.name for worker in refused)
            _log.error("%s: not served by %s, where it could not be loaded", model.key, names)
        model.ends = 0
        model.resolve()

    def _on_exit(self, worker: WorkerSupervisor, ended: WorkerExit) -> None:
        """Sends the jobs of an ended worker again, and counts its exit against the model that it was loading."""
        model = self._models.get(ended.loading.model) if ended.loading is not None else None
        if model is not None and ended.loading is not None and (error := model.record_exit(ended.loading)):
            self._fail(model, error)
        self._jobs.on_exit(ended)
        if self._jobs.broken:
            self._end_loads(NO_DEVICE if worker.no_device else NO_WORKER)
        self._jobs.dispatch_backlog()
