"""RemotePool: the pool of workers in one of several API processes. The leader starts the workers,
loads models into them and leases their capacity; jobs go to the workers directly."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from server.engine.client.crash_history import fingerprint
from server.engine.client.lease import Backlog, Lease, Load, WorkKind
from server.engine.client.model_pool import EngineModel, ModelHandle
from server.engine.client.status import WorkerStatus
from server.engine.client.worker_pool import WorkerPool
from server.engine.client.worker_subprocess import Channel
from server.engine.client.worker_supervisor import WorkerEvent, WorkerExit, WorkerSupervisor
from server.engine.ipc.messages import Failed, Job, ModelLoaded, UnloadModel, WorkerReady
from server.engine.ipc.options import WorkerOptions
from server.engine.ipc.peer import GONE, Peer
from server.errors import StateUnreachable

NO_STATUS = WorkerStatus(False, "", "", "", {}, 0, ())
RECONNECT_SECONDS = 0.05


class WorkerSocket(Channel, asyncio.Protocol):
    """The connection to a worker, whose process has the `number` that the leader reports."""

    number: int | None = None
    _closed = False

    @property
    def pid(self) -> int | None:
        return self.number if self._writer is not None else None

    async def start(self, path: str) -> None:
        """Connects when the worker listens."""
        while not self._closed:
            with contextlib.suppress(OSError):
                await self._loop.create_unix_connection(lambda: self, path)
                return
            await asyncio.sleep(RECONNECT_SECONDS)

    def close(self) -> None:
        self._closed = True
        super().close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._writer = cast(asyncio.Transport, transport)
        self.close() if self._closed else self._flush()

    data_received = Channel._receive

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_exit(0)


class WorkerLink(WorkerSupervisor):
    """A worker that the leader starts, restarts and kills, with the jobs of this process. `on_hang`
    is called when they hang."""

    _logs = False
    on_hang: Callable[[WorkerLink, str], None]

    def _open(self) -> None:
        self._process = process = WorkerSocket(self._on_messages, self._on_exit)
        self._starting = asyncio.create_task(process.start(self.options.socket_of(self.index)))

    def follow(self, pid: int | None, failures: int) -> None:
        self.failures = failures
        if isinstance(self._process, WorkerSocket):
            self._process.number = pid

    def abort(self, reason: str) -> None:
        self._aborted = True
        self.on_hang(self, reason)

    def _restart_later(self, code: int, healthy: bool) -> None:
        self._restart = asyncio.get_running_loop().call_later(RECONNECT_SECONDS, self.start)


@dataclass(frozen=True, slots=True)
class PoolState:
    """The state that the leader sends to all API processes. `failures` are those of each worker in a
    row, `models` the keys of the catalog, `failed` the keys of models that cannot be loaded with
    the error and the time of the next try; `errors` and `pulls` are those of ServedModels and
    ModelPulls."""

    readiness: str = "starting"
    loaded: bool = False
    status: WorkerStatus = NO_STATUS
    failures: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
    failed: tuple[tuple[str, str, float], ...] = ()
    errors: dict[str, str] = field(default_factory=dict)
    pulls: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """The EngineModel of a load that an API process requests from the leader."""

    name: str
    key: str
    folder: Path
    bytes: int


class PoolLink:
    """The connection of an API process to the leader; reconnects when the leader has ended.
    `follow` is called with each new state, `crashed` with jobs of other processes."""

    def __init__(self, path: str) -> None:
        self.state = PoolState()
        self.leases: dict[str, Lease] = {}
        self.loads: dict[str, Mapping[WorkKind, Load]] = {}
        self.counters: Callable[[], dict[str, float]] = dict
        self.in_use: Callable[[], dict[str, int]] = dict
        self.crashed: Callable[[list[tuple[int, bool]]], None] = lambda jobs: None
        self.follow: list[Callable[[PoolState], Coroutine[Any, Any, None]]] = []
        self._path, self._peer, self._closed = path, None, False
        self._connecting: asyncio.Task[None] | None = None

    _peer: Peer | None

    def start(self) -> None:
        self._connecting = asyncio.create_task(self._connect())

    async def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._peer is not None:
            self.report()
            self._peer.close()

    async def call(self, name: str, *arguments: object) -> Any:
        """Returns the leader's answer or raises its error; StateUnreachable without a leader."""
        if self._peer is None:
            raise StateUnreachable(GONE)
        return await self._peer.call(name, *arguments)

    async def charge(
        self, amounts: Sequence[tuple[str, int, int]], seconds: float
    ) -> tuple[int, float]:
        """Counts in the leader, as `RedisStore.charge` does."""
        over: tuple[int, float] = await self.call("charge", amounts)
        return over

    def report(self) -> None:
        """Sends what this process has accepted; the leader answers with the next leases."""
        if self._peer is not None:
            self._peer.note("report", self.loads, self.counters(), self.in_use())

    def note(self, name: str, *arguments: object) -> None:
        """Sends a message without an answer, if there is a leader."""
        if self._peer is not None:
            self._peer.note(name, *arguments)

    async def _connect(self) -> None:
        handlers: dict[str, Callable[..., Any]] = {
            "state": self._follow,
            "leases": self.leases.update,
        }
        handlers |= {"counters": self.counters, "crashed": self.crashed}
        loop, peer = asyncio.get_running_loop(), Peer(handlers, self._lost)
        while self._peer is None:
            with contextlib.suppress(OSError):
                await loop.create_unix_connection(lambda: peer, self._path)
                self._peer = peer
                self.report()
                return
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _follow(self, state: PoolState) -> None:
        self.state = state
        for follow in self.follow:
            await follow(state)

    def _lost(self, peer: Peer) -> None:
        self._peer = None
        if not self._closed:
            self.state = dataclasses.replace(self.state, readiness="starting")
            self.start()


class LeasedBacklog(Backlog):
    """The Backlog of one of several API processes: returns the lease of the last report, and a
    `share` of the limits before the first one."""

    def __init__(self, name: str, link: PoolLink, share: Backlog) -> None:
        self._name, self._link, self._share = name, link, share

    def renew(self, door: Hashable, loads: Mapping[WorkKind, Load]) -> Lease:
        self._link.loads[self._name] = loads
        self._link.report()
        return self._link.leases.get(self._name) or self._share.renew(door, loads)


class RemotePool(WorkerPool):
    """Sends jobs to the workers of the leader, and asks it to load models."""

    def __init__(self, options: WorkerOptions, link: PoolLink) -> None:
        super().__init__(options, lambda stats: None)
        self._link = link
        self._loads: dict[str, asyncio.Task[None]] = {}
        link.follow.append(self._follow)
        link.crashed = self._crashed

    def _crashed(self, jobs: list[tuple[int, bool]]) -> None:
        """Records jobs of another process that were running when a worker ended."""
        for key, alone in jobs:
            self._crashes.record(key, alone)

    async def start(self) -> None:
        self._watchdog = asyncio.create_task(self._tick())
        self._link.start()

    async def stop(self, grace_seconds: float) -> None:
        await super().stop(grace_seconds)
        for load in self._loads.values():
            load.cancel()
        await self._link.close()

    async def _follow(self, state: PoolState) -> None:
        for index in range(len(self._workers), len(state.failures)):
            link = WorkerLink(index, self._options, (), self._on_event)
            link.on_hang = lambda link, reason: self._link.note(
                "hangs", link.index, link.pid, reason
            )
            self._workers.append(link)
            link.start()
        for worker, status, failures in zip(
            self._workers, state.status.workers, state.failures, strict=False
        ):
            if isinstance(worker, WorkerLink):
                worker.follow(status.pid, failures)
        if self._broken:
            self._dispatch_waiting()

    async def load(self, model: ModelHandle) -> ModelLoaded:
        self._models[model.key] = model
        self._want(model)
        return await model.answer()

    def _want(self, model: ModelHandle) -> None:
        if model.key not in self._loads:
            self._loads[model.key] = asyncio.create_task(self._ask(model))
            self._loads[model.key].add_done_callback(lambda _: self._loads.pop(model.key))

    async def _ask(self, model: ModelHandle) -> None:
        wanted: EngineModel = model.model
        reference = ModelReference(wanted.name, wanted.key, wanted.folder, wanted.bytes)
        while True:
            with contextlib.suppress(StateUnreachable):
                answer, failed = await self._link.call("load", reference)
                break
            await asyncio.sleep(RECONNECT_SECONDS)
        if failed:
            model.fail(answer.error)
        else:
            model.loaded = answer if answer.error is None else model.loaded
            model.resolve(answer.error)
        self._dispatch_waiting()

    def submit(
        self, job: Job, on_progress: Callable[[tuple[int, ...]], None] | None = None
    ) -> asyncio.Future[Any]:
        model = self._models.get(job.model)
        if model is not None and not any(job.model in worker.loaded for worker in self._workers):
            self._want(model)  # the leader may have unloaded it
        return super().submit(job, on_progress)

    def status(self) -> WorkerStatus:
        """Returns the leader's status of the workers with the jobs of this process."""
        status, own = self._link.state.status, [len(worker.pending) for worker in self._workers]
        workers = [
            dataclasses.replace(each, jobs=n) for each, n in zip(status.workers, own, strict=False)
        ]
        workers += status.workers[len(own) :]
        return dataclasses.replace(status, in_flight=len(self._jobs), workers=tuple(workers))

    def _on_event(self, worker: WorkerSupervisor, event: WorkerEvent) -> None:
        match event:
            case Failed(kind="unknown_model", id=id) if id in self._jobs:
                # The leader has unloaded the model of a job: it is loaded again, and the job sent
                # again.
                item = self._jobs[id]
                worker.loaded.discard(item.job.model)
                if (model := self._models.get(item.job.model)) is not None:
                    self._want(model)
                self._dispatch(item)
            case WorkerReady() | ModelLoaded() | UnloadModel():
                self._dispatch_waiting()
            case WorkerExit(running=running):
                self._send_again(event)
                if running:
                    self._link.note("crashed", [(fingerprint(job), job.alone) for job in running])
                self._dispatch_waiting()
            case _:
                super()._on_event(worker, event)
