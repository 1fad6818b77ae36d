"""One device as the API process sees it: its worker through all restarts, what it has loaded and what it owes."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from server.engine.client.crash_history import Job
from server.engine.client.worker_subprocess import Child
from server.engine.ipc.messages import (
    Answer,
    AttentionJob,
    AttentionResult,
    Drain,
    Failed,
    LoadModel,
    ModelLoaded,
    ModelUnloaded,
    Progress,
    Started,
    StepStats,
    ToWorker,
    TranslateJob,
    TranslationResult,
    UnloadModel,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions

COMMAND = (sys.executable, "-m", "server.engine.worker.main")
"""How a worker process is started: a fresh interpreter, never a fork."""
_LONGEST_PAUSE = 30.0
_HEALTHY = 10.0
"""Seconds a worker must have been up for its next restart to come at once."""

_log = logging.getLogger("attentive.worker")


@dataclass(frozen=True, slots=True)
class Death:
    """A worker process ended. `running` were being worked on, `owed` not answered (those running included), as they were
    sent. `outside`: killed by the signal that no program sends itself by accident, and not because memory ran out."""

    running: tuple[Job, ...]
    owed: tuple[Job, ...]
    outside: bool
    loading: tuple[str, int] | None


class Owner(Protocol):
    """What a device tells the supervisor."""

    def on_ready(self, device: Device) -> None: ...
    def on_answer(self, answer: Answer) -> None: ...
    def on_progress(self, progress: Progress) -> None: ...
    def on_loaded(self, device: Device, version: int, loaded: ModelLoaded) -> None: ...
    def on_unloaded(self, device: Device, model: str) -> None: ...
    def on_stats(self, device: Device, stats: StepStats) -> None: ...
    def on_death(self, device: Device, death: Death) -> None: ...


class Device:
    """Starts the worker of device `index`, restarts it when it dies, kills it when it hangs."""

    def __init__(self, index: int, options: WorkerOptions, command: Sequence[str], owner: Owner) -> None:
        self.index = index
        self.ready: WorkerReady | None = None
        self.loaded: dict[str, int] = {}
        """Version of each model that this process serves."""
        self.refused: dict[str, int] = {}
        """Version of each model that it could not load."""
        self.owed: dict[int, Job] = {}
        """Jobs it was sent and has not answered, by id."""
        self.restarts = 0
        self.failures = 0
        """Ends of its own in a row without having answered anything, or been up for some time, between."""
        self.stats: StepStats | None = None
        self._options, self._command, self._owner = options, command, owner
        self._child: Child | None = None
        self._loading: tuple[str, int] | None = None
        self._started: set[int] = set()
        self._silent = self._waited = 0.0
        self._up_since = 0.0
        self._name = f"{options.device}:{index}"
        self._shot = self._stopped = False
        self._memory_kills: int | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    @property
    def loading(self) -> bool:
        return self._loading is not None

    @property
    def name(self) -> str:
        """torch's name of the device once it is known; it stays while the worker restarts."""
        return self._name

    # -- its life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process; `on_ready` follows, or `on_death` and another try."""
        self._restart = None
        self._silent = self._waited = 0.0
        self._shot = False
        self._memory_kills = out_of_memory_kills()
        self._child = Child(self._on_messages, self._on_exit)
        self._starting = asyncio.create_task(self._start(self._child))

    async def _start(self, child: Child) -> None:
        try:
            await child.start(self._command, (str(self.index), self._options.to_json()))
        except OSError as error:
            _log.error("worker %d cannot be started: %s", self.index, error)
            self._on_exit(1)

    def send(self, message: ToWorker) -> None:
        if self._child is None:
            return
        if isinstance(message, TranslateJob | AttentionJob):
            if not self.owed:
                self._silent = 0.0
            self.owed[message.id] = message
        self._child.send(message)

    def load(self, model: str, folder: str, version: int) -> None:
        """Have it load a model; one at a time, so that it is known which one a crash is to be blamed on."""
        self._loading, self._waited = (model, version), 0.0
        self.send(LoadModel(model, folder))

    def unload(self, model: str) -> None:
        self.loaded.pop(model, None)
        self.send(UnloadModel(model))

    def stop(self, *, kill: bool) -> None:
        """Do not restart it any more; end it after its last answer, or now."""
        self._stopped = True
        if self._restart is not None:
            self._restart.cancel()
        if self._child is not None:
            self._child.kill() if kill else self._child.send(Drain())

    def tick(self, seconds: float) -> None:
        """`seconds` have passed: kill it if it hangs. Counted in ticks, so a pause of the API process blames nobody."""
        if self._child is None or self._shot:
            return
        self._waited += seconds
        self._silent += seconds
        if self.ready is None and self._waited > self._options.start_seconds:
            self._shoot("did not start")
        elif self._loading is not None and self._waited > self._options.load_seconds:
            self._shoot("did not finish loading a model")
        elif self.ready is not None and self.owed and self._silent > self._options.watchdog_seconds:
            self._shoot("hangs in a step")

    def _shoot(self, reason: str) -> None:
        _log.error("worker %d %s; killing it", self.index, reason, extra={"worker_pid": self.pid})
        self._shot = True
        if self._child is not None:
            self._child.abort()

    # -- what it says --------------------------------------------------------------------------------------------------

    def _on_messages(self, messages: list[Any]) -> None:
        self._silent = 0.0
        for message in messages:
            self._on_message(message)

    def _on_message(self, message: Any) -> None:
        match message:
            case TranslationResult(id=id) | AttentionResult(id=id) | Failed(id=id):
                self.owed.pop(id, None)
                self._started.discard(id)
                self.failures = 0
                self._owner.on_answer(message)
            case Started(ids=ids):
                self._started.update(ids)
            case Progress():
                self._owner.on_progress(message)
            case StepStats():
                self.stats = message
                self._owner.on_stats(self, message)
            case WorkerReady():
                self._tell_engine(message)
                first, self.ready = self.ready is None, message
                self._name = message.device
                if first:
                    self._up_since = time.monotonic()
                    self._owner.on_ready(self)
            case ModelLoaded(model=model, error=error):
                loading, self._loading = self._loading, None
                if loading is not None:
                    (self.loaded if error is None else self.refused)[model] = loading[1]
                    self._owner.on_loaded(self, loading[1], message)
            case ModelUnloaded(model=model):
                self._owner.on_unloaded(self, model)

    def _tell_engine(self, news: WorkerReady) -> None:
        """One line in the log whenever something else decodes, and why it is not a faster engine."""
        reason = news.details.get("reason")
        before = (self.ready.engine, self.ready.details.get("reason")) if self.ready else None
        if news.engine and before != (news.engine, reason):
            _log.info("worker %d decodes with the %s engine%s", self.index, news.engine, f": {reason}" if reason else "")

    def _on_exit(self, code: int) -> None:
        ready = self.ready is not None
        healthy = ready and time.monotonic() - self._up_since >= _HEALTHY
        running = tuple(job for id, job in self.owed.items() if id in self._started)
        outside = code == -signal.SIGKILL and not self._shot and out_of_memory_kills() == self._memory_kills
        death = Death(running, tuple(self.owed.values()), outside, self._loading)
        self._child, self.ready, self._loading, self.stats = None, None, None, None
        self.owed, self._started, self.loaded, self.refused = {}, set(), {}, {}
        if self._stopped:
            self._owner.on_death(self, death)
            return
        if not (ready and outside):  # whoever kills a worker that runs has shown nothing about it
            self.failures = 1 if healthy else self.failures + 1
        self.restarts += 1
        pause = self._pause()
        _log.error(
            "worker %d ended with code %d; restarting in %.1f s", self.index, code, pause, extra={"worker_code": code}
        )
        self._restart = asyncio.get_running_loop().call_later(pause, self.start)
        self._owner.on_death(self, death)

    def _pause(self) -> float:
        """Seconds before the next start: none after the first failure, then doubling."""
        return 0.0 if self.failures <= 1 else min(_LONGEST_PAUSE, 0.125 * 2.0 ** (self.failures - 1))


def out_of_memory_kills() -> int | None:
    """How many processes the kernel has killed for want of memory since it started, in any container; None where it does
    not say. A process can be killed by anybody; this tells whether it was for what it did."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
