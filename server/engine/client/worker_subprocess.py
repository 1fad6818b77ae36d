"""A worker process on the event loop: sends and receives messages, and logs its output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from server.engine.ipc.messages import ToWorker
from server.engine.ipc.transport import Unpacker, pack
from server.process import end_first

_log = logging.getLogger("attentive.worker")
_LINE = 4096
"""Longest line of a worker's output that is logged whole."""
_DRAIN_SECONDS = 1.0
"""Seconds after the end of a process in which its last messages may arrive."""
_INPUT, _MESSAGES, _OUTPUT = 0, 1, 2
"""Descriptors of the worker: messages to it and from it, and what it prints."""


class CpuUse(NamedTuple):
    """Whether a process is stopped by a signal, and its processor time in ticks of the system."""

    stopped: bool
    ticks: int


class Channel:
    """A connection to a worker. `on_messages` receives its messages, then `on_exit` its return
    code, once."""

    def __init__(
        self, on_messages: Callable[[list[Any]], None], on_exit: Callable[[int], None]
    ) -> None:
        self._on_messages, self._on_exit = on_messages, on_exit
        self._loop = asyncio.get_running_loop()
        self._writer: asyncio.WriteTransport | None = None
        self._unpacker = Unpacker()
        self._unsent: list[ToWorker] = []

    @property
    def pid(self) -> int | None:
        """The process at the other end."""
        return None

    def cpu_use(self) -> CpuUse | None:
        """Returns the state of the process; None where the system does not say."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has ended, or there is no /proc
            return None
        return CpuUse(fields[0] == b"T", int(fields[11]) + int(fields[12]))

    def send(self, message: ToWorker) -> None:
        """Sends all messages of one iteration of the event loop as one frame."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(message)

    def close(self) -> None:
        """Closes the connection, after which the process ends; `on_exit` follows."""
        if self._writer is not None:
            self._writer.close()

    def kill(self) -> None:
        """Ends the connection at once; `on_exit` follows."""
        self.close()

    def abort(self) -> None:
        """Ends a process that hangs."""
        self.kill()

    def _flush(self) -> None:
        if self._writer is not None and self._unsent:
            unsent, self._unsent = self._unsent, []
            if not self._writer.is_closing():
                self._writer.write(pack(unsent))

    def _receive(self, data: bytes) -> None:
        if messages := self._unpacker.feed(data):
            self._on_messages(messages)


class WorkerSubprocess(Channel, asyncio.SubprocessProtocol):
    """A worker process that this process starts."""

    _transport: asyncio.SubprocessTransport | None = None
    _line = b""

    @property
    def pid(self) -> int | None:
        return None if self._transport is None else self._transport.get_pid()

    async def start(self, command: Sequence[str]) -> None:
        """Runs `command` in a new session, which Ctrl-C does not reach. Raises OSError."""
        await self._loop.subprocess_exec(lambda: self, *command, start_new_session=True)

    def kill(self) -> None:
        """Ends the process at once; `on_exit` follows."""
        self._signal(signal.SIGKILL)

    def abort(self) -> None:
        """Has the process write its stack to the log (faulthandler), then ends it."""
        self._signal(signal.SIGABRT)
        self._loop.call_later(_DRAIN_SECONDS, self.kill)

    def _signal(self, number: signal.Signals) -> None:
        if self._transport is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                self._transport.send_signal(number)

    def _log_line(self, line: bytes) -> None:
        if text := line[:_LINE].decode("utf-8", "replace").rstrip():
            _log.warning("worker: %s", text, extra={"worker_pid": self.pid})

    # -- events of the process
    # -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._writer = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(_INPUT))
        end_first(self._transport.get_pid())
        self._flush()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _MESSAGES:
            self._receive(data)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[-_LINE:]
        for line in lines:
            self._log_line(line)

    def process_exited(self) -> None:
        """Waits for the last messages, but not for children of the worker that keep pipes open."""
        if self._transport is not None:
            self._loop.call_later(_DRAIN_SECONDS, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._log_line(self._line)
            self._transport.close()
            self._on_exit(self._transport.get_returncode() or 0)
