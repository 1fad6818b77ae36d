"""A worker process on the event loop: it sends and receives messages, and logs the output of the process. No torch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from server.engine.ipc.messages import ToWorker
from server.engine.ipc.transport import Unpacker, pack
from server.process import end_first

_log = logging.getLogger("attentive.worker")
_LINE = 4096
"""Longest line of a worker's output that is logged whole."""
_DRAIN_SECONDS = 1.0
"""Seconds after the end of a process in which messages that it sent before may still arrive."""


class WorkerSubprocess:
    """A worker process. `on_messages` receives its messages; `on_exit` its return code, once, after the last
    message."""

    def __init__(self, on_messages: Callable[[list[Any]], None], on_exit: Callable[[int], None]) -> None:
        self._on_messages = on_messages
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._unsent: list[ToWorker] = []
        self._ended = asyncio.Event()
        self._pipe_closed = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, command: Sequence[str], arguments: Sequence[str]) -> None:
        """Runs `command` READ_FD WRITE_FD `arguments`; its output goes to the log. Raises OSError."""
        ends: list[int] = []
        try:
            for _ in range(3):
                ends += os.pipe()
            to_worker, our_write, our_read, from_worker, our_log, output = ends
            with signals_blocked():
                self._process = subprocess.Popen(  # noqa: ASYNC220  starting is quick, and works in any event loop
                    [*command, str(to_worker), str(from_worker), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(to_worker, from_worker),
                )
        except OSError:
            for descriptor in ends:
                os.close(descriptor)
            raise
        end_first(self._process.pid)
        for descriptor in (to_worker, from_worker, output):
            os.close(descriptor)
        threading.Thread(target=self._wait, args=(self._process,), name="worker-wait", daemon=True).start()
        self._writer, _ = await self._loop.connect_write_pipe(asyncio.Protocol, os.fdopen(our_write, "wb", 0))
        messages, output_lines = partial(_Messages, self._on_messages, self._pipe_closed), partial(_Output, self)
        reader, _ = await self._loop.connect_read_pipe(messages, os.fdopen(our_read, "rb", 0))
        listener, _ = await self._loop.connect_read_pipe(output_lines, os.fdopen(our_log, "rb", 0))
        self._transports = [self._writer, reader, listener]
        self._waiting = asyncio.create_task(self._await_end(self._process))

    def send(self, message: ToWorker) -> None:
        """Sends soon: all messages of one iteration of the event loop are written as one frame."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(message)

    def kill(self) -> None:
        """Ends the process at once; `on_exit` follows."""
        self._signal(signal.SIGKILL)

    def abort(self) -> None:
        """Ends the process after it has written its stack to the log (faulthandler); `on_exit` follows."""
        self._signal(signal.SIGABRT)
        self._loop.call_later(_DRAIN_SECONDS, self.kill)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and not self._ended.is_set():
            self._process.send_signal(number)  # does nothing to a process that has ended

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(pack(unsent))

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the event loop may be closed by now
            self._loop.call_soon_threadsafe(self._ended.set)

    async def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        await self._ended.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._pipe_closed.wait(), _DRAIN_SECONDS)
        for transport in self._transports:
            transport.close()
        self._on_exit(process.returncode)


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Blocks SIGINT and SIGTERM in processes that are started in the block, until the worker ignores them itself.

    Without it, Ctrl-C during the imports of a worker would end it with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Messages(asyncio.Protocol):
    """Unpacks frames from the worker."""

    def __init__(self, on_messages: Callable[[list[Any]], None], pipe_closed: asyncio.Event) -> None:
        self._unpacker = Unpacker()
        self._on_messages = on_messages
        self._pipe_closed = pipe_closed

    def data_received(self, data: bytes) -> None:
        messages = self._unpacker.feed(data)
        if messages:
            self._on_messages(messages)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pipe_closed.set()


class _Output(asyncio.Protocol):
    """Logs the output of the worker (a traceback, a library's warning) line by line."""

    def __init__(self, process: WorkerSubprocess) -> None:
        self._process = process
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LINE:]
        for line in lines:
            self._log_line(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._log_line(self._rest)

    def _log_line(self, line: bytes) -> None:
        if text := line[:_LINE].decode("utf-8", "replace").rstrip():
            _log.warning("worker: %s", text, extra={"worker_pid": self._process.pid})
