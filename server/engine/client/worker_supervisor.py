"""WorkerSupervisor: starts the worker of one device, restarts it after a crash, and kills it when it
hangs."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from server.engine.client.status import DeviceStatus, WorkerState, without_folders
from server.engine.client.worker_subprocess import Channel, CpuUse, WorkerSubprocess
from server.engine.ipc.messages import (
    Failed,
    FromWorker,
    Job,
    JobResult,
    LoadModel,
    ModelLoaded,
    Started,
    StepStats,
    ToWorker,
    UnloadModel,
    WorkerReady,
)
from server.engine.ipc.options import NO_DEVICE_STATUS, WorkerOptions
from server.errors import ending

COMMAND = (sys.executable, "-m", "server.engine.worker")
"""Starts a worker process."""
_FIRST_PAUSE, _MAX_PAUSE, _MOST_DOUBLINGS = 0.25, 30.0, 20
"""Seconds before a start after two failures in a row; they double with each further one."""
_HEALTHY_SECONDS = 10.0
"""A worker that was up for this long restarts at once."""
_FROZEN_SECONDS = 15.0
"""A worker is killed that is stopped for this long, or that has work and neither sends anything nor
uses a processor. One that computes, as in a long step on a slow machine, has `watchdog_seconds`."""
_SUSPECT_SECONDS = 10.0
"""A worker counts as frozen after this long: other workers and servers get its work."""

_log = logging.getLogger("attentive.worker")


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """The end of a worker process: the jobs it was computing, and all jobs and the load that it had
    not answered."""

    running: tuple[Job, ...]
    pending: tuple[Job, ...]
    loading: LoadModel | None


WorkerEvent = FromWorker | WorkerExit


class WorkerSupervisor:
    """Supervises the worker of device `index`. `on_event` is called with each message of the worker,
    and when it has ended."""

    _logs = True

    def __init__(
        self,
        index: int,
        options: WorkerOptions,
        command: Sequence[str],
        on_event: Callable[[WorkerSupervisor, WorkerEvent], None],
    ) -> None:
        self.index = index
        self.ready: WorkerReady | None = None
        self.loaded: set[str] = set()
        self.loading: LoadModel | None = None
        """The unanswered load."""
        self.pending: dict[int, Job] = {}
        """Unanswered jobs by id."""
        self.no_device = False
        """Whether it ended because its device does not exist, so that it is not restarted. A GPU
        that was there may come back."""
        self.restarts = self.hangs = 0
        """Restarted processes, and those that were killed because they hung."""
        self.failures = 0
        """Failed starts and crashes without an answer or a healthy time in between."""
        self.stats: StepStats | None = None
        self.name = f"{options.device}:{index}"
        """torch's name of the device, after the worker has reported it."""
        self.options = options
        self.gpu: str | None = None
        """UUID of the GPU of its next process; None for the GPU with its index."""
        self.refused: set[str] = set()
        """Models that the process could not load."""
        self._command, self._on_event = command, on_event
        self._process: Channel | None = None
        self._running: set[int] = set()
        self._waited = self._silent = self._still = 0.0
        self._use: CpuUse | None = None
        self._up_since = 0.0
        self._aborted = self._stopped = False
        self._restart: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def state(self) -> WorkerState:
        if min(self._silent, self._still) >= _SUSPECT_SECONDS:
            return "frozen"
        return "starting" if self.ready is None else "up"

    # -- control
    # ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the process; WorkerReady follows, or WorkerExit and a restart."""
        self._restart = None
        self._waited = self._silent = self._still = 0.0
        self._aborted = False
        self._open()

    def _open(self) -> None:
        self._process = process = WorkerSubprocess(self._on_messages, self._on_exit)
        self._starting = asyncio.create_task(self._start(process))

    async def _start(self, process: WorkerSubprocess) -> None:
        try:
            command = (*self._command, str(self.index), self.options.to_json())
            if self.gpu is not None:
                command = ("env", f"CUDA_VISIBLE_DEVICES={self.gpu}", *command, self.gpu)
            await process.start(command)
        except OSError as error:
            _log.error("worker %d cannot be started: %s", self.index, error)
            self._on_exit(1)
        if self._stopped:  # in the meantime
            process.kill()

    def send(self, message: ToWorker) -> None:
        """Sends a message, if the process runs."""
        if self._process is None:
            return
        if isinstance(message, Job):
            if not self.pending:
                self._silent = 0.0
            self.pending[message.id] = message
        self._process.send(message)

    def load(self, load: LoadModel) -> None:
        """Loads a model. The caller loads one at a time, so that a crash has one cause."""
        self.loading = load
        self._waited = self._silent = 0.0
        self.send(load)

    def unload(self, model: str) -> None:
        """Unloads a model after its last job."""
        self.loaded.discard(model)
        self.send(UnloadModel(model))

    def stop(self, *, kill: bool) -> None:
        """Ends the process without a restart: after its present step, or at once with `kill` or while
        it starts."""
        self._stopped = True
        if self._restart is not None:
            self._restart.cancel()
        if self._process is not None:
            self._process.kill() if kill or self.ready is None else self._process.close()

    def tick(self, seconds: float) -> None:
        """Aborts the process if it hangs, after `seconds`. The caller bounds them, so that a pause of
        the API process does not count against the worker."""
        if self._process is None or self._aborted:
            return
        self._waited += seconds
        self._silent += seconds
        use = self._process.cpu_use()
        if use is not None and not (use.stopped or self.pending or self.loading):
            use = None  # it has nothing to do
        before, self._use = self._use, use
        self._still = self._still + seconds if use is not None and use == before else 0.0
        if reason := self._overdue():
            self.abort(reason)

    def abort(self, reason: str) -> None:
        if self._process is not None and not self._aborted:
            self.hangs += 1
            _log.error(
                "worker %d %s; killing it", self.index, reason, extra={"worker_pid": self.pid}
            )
            self._aborted = True
            self._process.abort()

    def _overdue(self) -> str | None:
        if self.ready is None and self._waited > self.options.start_seconds:
            return "did not start"
        if self.loading and self._waited > self.options.load_seconds:
            return "did not finish loading a model"
        if self.ready is not None and self.pending and self._silent > self.options.watchdog_seconds:
            return "hangs in a step"
        if min(self._silent, self._still) > _FROZEN_SECONDS:
            return "is frozen"
        return None

    # -- messages
    # ----------------------------------------------------------------------------------------------

    def _on_messages(self, messages: list[Any]) -> None:
        self._silent = 0.0
        for message in messages:
            self._on_message(message)

    def _on_message(self, message: Any) -> None:
        match message:
            case JobResult(id=id) | Failed(id=id):
                self.pending.pop(id, None)
                self._running.discard(id)
                self.failures = 0
            case Started(ids=ids):
                self._running.update(ids)
            case StepStats():
                self.stats = message
                if message.steps and not self.pending:  # the jobs of API processes
                    self.failures = 0
            case WorkerReady():
                self._on_ready(message)
            case ModelLoaded(model=model, error=error):
                self.loading = None
                (self.loaded if error is None else self.refused).add(model)
            case UnloadModel(model=model):
                self.loaded.discard(model)
        self._on_event(self, message)

    def status(self) -> DeviceStatus:
        ready = self.ready or WorkerReady(self.name, "", "")
        detail = ready.details.get
        return DeviceStatus(
            self.name, self.state == "up", self.pid, self.restarts, len(self.pending), self.state,
            self.hangs, ready.engine, ready.dtype, detail("kernels", ""),
            without_folders(detail("reason", "")),
        )  # fmt: skip

    def _on_ready(self, message: WorkerReady) -> None:
        reason = message.details.get("reason")
        before = (self.ready.engine, self.ready.details.get("reason")) if self.ready else None
        if self._logs and message.engine and before != (message.engine, reason):
            kernels = message.details.get("kernels")
            suffix = f", kernels: {kernels}" if kernels else ""
            suffix += f": {reason}" if reason else ""
            # a slower engine than the processor's
            level = logging.WARNING if reason else logging.INFO
            _log.log(
                level, "worker %d decodes with the %s engine%s", self.index, message.engine, suffix
            )
        if self.ready is None:
            self._up_since = time.monotonic()
        self.ready = message
        self.name = message.device

    def _on_exit(self, code: int) -> None:
        healthy = self.ready is not None and time.monotonic() - self._up_since >= _HEALTHY_SECONDS
        running = tuple(job for id, job in self.pending.items() if id in self._running)
        ended = WorkerExit(running, tuple(self.pending.values()), self.loading)
        self._process, self.ready, self.loading, self.stats = None, None, None, None
        self.pending, self._running, self.loaded, self.refused = {}, set(), set(), set()
        self.no_device = code == NO_DEVICE_STATUS and not self._up_since and self.gpu is None
        if not (self._stopped or self.no_device):
            self._restart_later(code, healthy)
        self._on_event(self, ended)

    def _restart_later(self, code: int, healthy: bool) -> None:
        self.failures = 1 if healthy else self.failures + 1
        self.restarts += 1
        doublings = min(self.failures - 2, _MOST_DOUBLINGS)
        pause = 0.0 if doublings < 0 else min(_MAX_PAUSE, _FIRST_PAUSE * 2.0**doublings)
        _log.error(
            "worker %d %s; restarting in %.1f s",
            self.index,
            ending(code),
            pause,
            extra={"worker_code": code},
        )
        self._restart = asyncio.get_running_loop().call_later(pause, self.start)
