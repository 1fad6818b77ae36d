"""A worker that another process has started: its socket in place of its pipes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from server.engine.client.worker_subprocess import WorkerSubprocess
from server.engine.client.worker_supervisor import WorkerSupervisor
from server.engine.ipc.transport import pack

RECONNECT_SECONDS = 0.05


class WorkerSocket(WorkerSubprocess, asyncio.Protocol):
    """The connection to a worker. `on_exit` is called when it has ended."""

    def __init__(self, path: str, on_messages: Callable[[list[Any]], None], on_exit: Callable[[int], None]) -> None:
        super().__init__(on_messages, on_exit)
        self._path = path
        self._socket: asyncio.Transport | None = None
        self._closed = False
        self.number: int | None = None
        """The process at the other end, as the leader says."""

    @property
    def pid(self) -> int | None:
        return self.number

    async def start(self, command: Sequence[str] = ()) -> None:
        """Connects as soon as the worker listens."""
        while not self._closed:
            with contextlib.suppress(OSError):
                await self._loop.create_unix_connection(lambda: self, self._path)
                return
            await asyncio.sleep(RECONNECT_SECONDS)

    def close(self) -> None:
        self._closed = True
        if self._socket is not None:
            self._socket.close()

    def _flush(self) -> None:
        if self._socket is not None and not self._socket.is_closing():
            unsent, self._unsent = self._unsent, []
            self._socket.write(pack(unsent))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        if self._closed:
            self._socket.close()
        elif self._unsent:
            self._flush()

    def data_received(self, data: bytes) -> None:
        if messages := self._unpacker.feed(data):
            self._on_messages(messages)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_exit(0)


class WorkerLink(WorkerSupervisor):
    """A worker that the leader starts, restarts and kills. Its jobs are those of this process, which
    calls `on_hang` when they hang."""

    _logs = False
    on_hang: Callable[[WorkerLink, str], None]

    def start(self) -> None:
        self._restart, self._waited, self._silent, self._still, self._aborted = None, 0.0, 0.0, 0.0, False
        process = WorkerSocket(self.options.socket_of(self.index), self._on_messages, self._on_exit)
        self._process, self._starting = process, asyncio.create_task(process.start())

    def follow(self, pid: int | None, failures: int) -> None:
        """The leader says which process it is, and how often it failed in a row."""
        self.failures = failures
        if isinstance(self._process, WorkerSocket):
            self._process.number = pid

    def abort(self, reason: str) -> None:
        self._aborted = True
        self.on_hang(self, reason)

    def stop(self, *, kill: bool) -> None:
        self._stopped = True
        if self._restart is not None:
            self._restart.cancel()
        if self._process is not None:
            self._process.close()

    def _restart_later(self, code: int, healthy: bool) -> None:
        self._restart = asyncio.get_running_loop().call_later(RECONNECT_SECONDS, self.start)
