"""A worker that another process has started: its socket in place of its pipes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import cast

from server.engine.client.worker_subprocess import Channel
from server.engine.client.worker_supervisor import WorkerSupervisor

RECONNECT_SECONDS = 0.05


class WorkerSocket(Channel, asyncio.Protocol):
    """The connection to a worker. `number` is the process at the other end, as the leader says."""

    number: int | None = None
    _closed = False

    @property
    def pid(self) -> int | None:
        return self.number if self._writer is not None else None

    async def start(self, path: str) -> None:
        """Connects as soon as the worker listens."""
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
    """A worker that the leader starts, restarts and kills. Its jobs are those of this process,
    which calls `on_hang` when they hang."""

    _logs = False
    on_hang: Callable[[WorkerLink, str], None]

    def _open(self) -> None:
        self._process = process = WorkerSocket(self._on_messages, self._on_exit)
        self._starting = asyncio.create_task(process.start(self.options.socket_of(self.index)))

    def follow(self, pid: int | None, failures: int) -> None:
        """The leader says which process it is, and how often it failed in a row."""
        self.failures = failures
        if isinstance(self._process, WorkerSocket):
            self._process.number = pid

    def abort(self, reason: str) -> None:
        self._aborted = True
        self.on_hang(self, reason)

    def _restart_later(self, code: int, healthy: bool) -> None:
        self._restart = asyncio.get_running_loop().call_later(RECONNECT_SECONDS, self.start)
