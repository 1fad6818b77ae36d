"""Sends jobs to workers and resolves their futures, through crashes and restarts.

A job belongs to the dispatcher until its future resolves. Jobs that an ended worker had not answered are sent again.
Those it was computing are recorded in the CrashHistory: a suspected job runs alone, and a job that ends its worker
again is rejected.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeVar

from server.engine.client.crash_history import MAX_ENDS_ALONE, CrashHistory
from server.engine.client.model_handle import ModelHandle
from server.engine.client.status import WorkerFailure
from server.engine.client.worker_supervisor import WorkerExit, WorkerSupervisor
from server.engine.ipc.messages import Answer, Cancel, Failed, FailureKind, Job, Progress

MAX_FAILURES = 5
"""A worker with this many failures in a row counts as broken: jobs do not wait for it."""
SHUTDOWN = "The server is shutting down."
NO_WORKER = "The model worker does not start; the server's log says why."
_REJECTED = "The model worker failed on this text each time; it is not tried again."

_log = logging.getLogger("attentive.worker")
Event = TypeVar("Event")


@dataclass(slots=True, eq=False)
class InFlightJob:
    """An accepted job and its future. `worker` is the one it was sent to; `shown` tokens were reported as progress."""

    job: Job
    future: asyncio.Future[Any]
    on_progress: Callable[[tuple[int, ...]], None] | None = None
    worker: WorkerSupervisor | None = None
    shown: int = 0


class JobDispatcher:
    """Dispatches jobs to the least loaded of `workers` that has their model; both arguments are shared with the
    owner."""

    def __init__(self, workers: list[WorkerSupervisor], models: dict[str, ModelHandle]) -> None:
        self._workers, self._models = workers, models
        self._in_flight: dict[int, InFlightJob] = {}
        self._backlog: dict[int, InFlightJob] = {}
        """Jobs that no worker can take yet, in order of arrival."""
        self.crashes = CrashHistory()
        self._ids = count(1)
        self._closed = False
        self.idle = asyncio.Event()
        """Set while no job is in flight."""
        self.idle.set()

    def __len__(self) -> int:
        return len(self._in_flight)

    def __contains__(self, id: int) -> bool:
        return id in self._in_flight

    def __getitem__(self, id: int) -> Job:
        return self._in_flight[id].job

    @property
    def broken(self) -> bool:
        """Whether every worker failed too often in a row, or has no device."""
        return bool(self._workers) and all(
            worker.no_device or worker.failures >= MAX_FAILURES for worker in self._workers
        )

    def accept(self, job: Job, on_progress: Callable[[tuple[int, ...]], None] | None = None) -> asyncio.Future[Any]:
        """Numbers a job and sends it, or keeps it until a worker can take it. Cancelling the future cancels the job."""
        job.id = next(self._ids)
        item = InFlightJob(job, asyncio.get_running_loop().create_future(), on_progress)
        item.future.add_done_callback(partial(self._remove, item))
        if not self._in_flight:
            self.idle.clear()
        self._in_flight[job.id] = item
        model = self._models.get(job.model)
        if model is not None and model.unloading:
            _fail(item, "unknown_model", f"There is no model named {job.model}.")
        self._dispatch(item)
        return item.future

    def futures(self, model: str) -> list[asyncio.Future[Any]]:
        """Returns the futures of all jobs for `model`."""
        return [item.future for item in self._in_flight.values() if item.job.model == model]

    def dispatch_backlog(self) -> None:
        """Sends waiting jobs that a worker can take now, and fails those that no worker will take."""
        for item in list(self._backlog.values()):
            self._dispatch(item)

    def send_again(self, id: int) -> None:
        """Dispatches a job again that its worker did not accept."""
        if (item := self._in_flight.get(id)) is not None:
            item.worker = None
            self._dispatch(item)

    def close(self) -> None:
        """Fails all jobs, and those that are accepted from now on."""
        self._closed = True
        for item in list(self._in_flight.values()):
            _fail(item, "cancelled", SHUTDOWN)

    def on_answer(self, answer: Answer) -> None:
        """Resolves the future of a job."""
        item = self._in_flight.get(answer.id)
        if item is None or item.future.done():
            return
        self.crashes.forget(item.job)
        if isinstance(answer, Failed):
            _fail(item, answer.kind, answer.message)
        else:
            item.future.set_result(answer)

    def on_progress(self, progress: Progress) -> None:
        """Reports the tokens of a job if there are more than before, also than before a restart."""
        item = self._in_flight.get(progress.id)
        if item is not None and item.on_progress is not None and len(progress.tokens) > item.shown:
            item.shown = len(progress.tokens)
            notify(item.on_progress, progress.tokens)

    def on_exit(self, ended: WorkerExit) -> None:
        """Records the jobs that an ended worker was computing, and sends its unanswered jobs again."""
        for job in ended.running:
            self.crashes.record_exit(job)
            if (self.crashes.ends_alone(job) or 0) >= MAX_ENDS_ALONE:
                _log.error("job %d killed its worker again; it is not tried any more", job.id)
        if self.broken:
            self.crashes.clear()
        # Those that ended fewer workers are sent first, so that kills from outside hit different jobs.
        for job in sorted(ended.pending, key=lambda job: (self.crashes.ends_alone(job) or 0, job.id)):
            item = self._in_flight.get(job.id)
            if item is not None:
                item.worker = None
                self._dispatch(item)

    def _dispatch(self, item: InFlightJob) -> None:
        """Sends a job to a worker, keeps it in the backlog while none can take it, or fails it."""
        if item.future.done():
            return
        job = item.job
        model = self._models.get(job.model)
        ends_alone = self.crashes.ends_alone(job)
        worker = self._least_loaded(job.model, suspected=ends_alone is not None)
        if self._closed:
            _fail(item, "cancelled", SHUTDOWN)
        elif model is None:
            _fail(item, "unknown_model", f"There is no model named {job.model}.")
        elif ends_alone is not None and ends_alone >= MAX_ENDS_ALONE:
            _fail(item, "poison", _REJECTED)
        elif worker is not None:
            self._backlog.pop(job.id, None)
            item.worker = worker
            worker.send(job if ends_alone is None else dataclasses.replace(job, alone=True))
        elif model.error is not None:
            _fail(item, "unknown_model", f"The model {job.model} could not be loaded.")
        elif self.broken:
            _fail(item, "unavailable", NO_WORKER)
        else:
            self._backlog[job.id] = item

    def _least_loaded(self, model: str, *, suspected: bool) -> WorkerSupervisor | None:
        """Returns the worker with the fewest jobs of those that can run a model now, a frozen one only without another. A
        suspected job does not run while another model is loading, which may also be what ends the worker."""
        able = [worker for worker in self._workers if worker.ready is not None and model in worker.loaded]
        if suspected:
            able = [worker for worker in able if worker.loading is None]
        if len(able) == 1:
            return able[0]
        return min(able, key=lambda worker: (worker.state == "frozen", len(worker.pending)), default=None)

    def _remove(self, item: InFlightJob, _: asyncio.Future[Any]) -> None:
        """The future has resolved, or its caller cancelled it."""
        id = item.job.id
        if item.worker is not None and id in item.worker.pending:
            item.worker.send(Cancel(id))
        self._backlog.pop(id, None)
        self._in_flight.pop(id, None)
        if not self._in_flight:
            self.idle.set()


def _fail(item: InFlightJob, kind: FailureKind, message: str) -> None:
    if not item.future.done():
        item.future.set_exception(WorkerFailure(kind, message))


def notify(listener: Callable[[Event], None], event: Event) -> None:
    """Calls a listener. Its exceptions are logged and do not affect the jobs."""
    try:
        listener(event)
    except Exception:  # noqa: BLE001  a callback may raise anything
        _log.exception("a listener of the workers failed")
