"""One worker process as the event loop sees it: messages out, messages in, its output in the log, its end. No torch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from server.engine.ipc.messages import ToWorker
from server.engine.ipc.transport import Unpacker, pack

_log = logging.getLogger("attentive.worker")
_LINE = 4096
"""Longest line of a worker's output that is logged whole."""
_LAST_WORDS = 1.0
"""Seconds after a worker's end in which what it wrote before may still arrive."""


class Child:
    """A worker process. `on_messages` gets what it says; `on_exit` its return code, once, after its last message."""

    def __init__(self, on_messages: Callable[[list[Any]], None], on_exit: Callable[[int], None]) -> None:
        self._on_messages = on_messages
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._unsent: list[ToWorker] = []
        self._ended = asyncio.Event()
        self._silent = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, command: Sequence[str], arguments: Sequence[str]) -> None:
        """Run `command` READ_FD WRITE_FD `arguments` in a fresh interpreter; its output goes to the log."""
        ends: list[int] = []
        try:
            for _ in range(3):
                ends += os.pipe()
            to_child, our_write, our_read, from_child, our_log, output = ends
            self._process = subprocess.Popen(  # noqa: ASYNC220  starting takes a moment, and works in any event loop
                [*command, str(to_child), str(from_child), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(to_child, from_child),
            )
        except OSError:
            for descriptor in ends:
                os.close(descriptor)
            raise
        for descriptor in (to_child, from_child, output):
            os.close(descriptor)
        threading.Thread(target=self._wait, args=(self._process,), name="worker-wait", daemon=True).start()
        self._writer, _ = await self._loop.connect_write_pipe(asyncio.Protocol, os.fdopen(our_write, "wb", 0))
        messages, output_lines = partial(_Messages, self._on_messages, self._silent), partial(_Output, self)
        reader, _ = await self._loop.connect_read_pipe(messages, os.fdopen(our_read, "rb", 0))
        listener, _ = await self._loop.connect_read_pipe(output_lines, os.fdopen(our_log, "rb", 0))
        self._transports = [self._writer, reader, listener]
        self._watch = asyncio.create_task(self._await_end(self._process))

    def send(self, message: ToWorker) -> None:
        """Send soon: everything sent in one turn of the event loop goes out as one frame."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(message)

    def kill(self) -> None:
        """End it now; `on_exit` follows."""
        self._signal(signal.SIGKILL)

    def abort(self) -> None:
        """End it, but let it first write to the log where it is stuck (faulthandler); `on_exit` follows."""
        self._signal(signal.SIGABRT)
        self._loop.call_later(_LAST_WORDS, self.kill)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and not self._ended.is_set():
            self._process.send_signal(number)  # does nothing to a process that has ended and was waited for

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
            await asyncio.wait_for(self._silent.wait(), _LAST_WORDS)
        for transport in self._transports:
            transport.close()
        self._on_exit(process.returncode)


class _Messages(asyncio.Protocol):
    """Frames from the worker."""

    def __init__(self, on_messages: Callable[[list[Any]], None], silent: asyncio.Event) -> None:
        self._unpacker = Unpacker()
        self._on_messages = on_messages
        self._silent = silent

    def data_received(self, data: bytes) -> None:
        messages = self._unpacker.feed(data)
        if messages:
            self._on_messages(messages)

    def connection_lost(self, exc: Exception | None) -> None:
        self._silent.set()


class _Output(asyncio.Protocol):
    """What the worker prints (a traceback, a library's warning), line by line into the log."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LINE:]
        for line in lines:
            self._say(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._say(self._rest)

    def _say(self, line: bytes) -> None:
        if text := line[:_LINE].decode("utf-8", "replace").rstrip():
            _log.warning("worker: %s", text, extra={"worker_pid": self._child.pid})
