"""The connections of a worker that several API processes use: the pipes to the process that started
it, and a socket of each API process. `receive` and `send` are those of `Pipes`."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from itertools import count
from pathlib import Path

from server.engine.ipc.messages import (
    Cancel,
    Failed,
    FromWorker,
    Job,
    JobResult,
    ModelLoaded,
    Progress,
    Started,
    StepStats,
    ToWorker,
    UnloadModel,
    WorkerReady,
)
from server.engine.ipc.transport import Pipes, Unpacker, pack

STATS_SECONDS = 0.1
"""Statistics are sent this often: the process that receives them sees no jobs."""
UNSENT_BYTES = 256_000_000
"""A process that leaves more answers unread is disconnected."""
_READ = 1 << 20


class Connection:
    """The socket of one API process: what is not sent yet, and the numbers of its unanswered jobs."""

    def __init__(self, bound: socket.socket) -> None:
        bound.setblocking(False)
        self.socket, self.unpacker, self.unsent = bound, Unpacker(), bytearray()
        self.numbers: dict[int, int] = {}  # by the ids of the process
        self.frame: list[FromWorker] = []

    def write(self) -> None:
        """Sends what can be sent at once. Raises OSError where the process has gone."""
        frame, self.frame = self.frame, []
        if frame:
            if len(self.unsent) > UNSENT_BYTES:
                raise ConnectionAbortedError
            self.unsent += pack(frame)
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]


class Connections:
    """Gives the jobs of all processes numbers in the order of their arrival, and each answer back to
    the process of its job. A process that connects gets the state of the worker first; the jobs of
    one that has gone are cancelled."""

    def __init__(self, pipes: Pipes, path: str) -> None:
        self._pipes = pipes
        self._listener = socket.socket(socket.AF_UNIX)
        Path(path).unlink(missing_ok=True)  # of a worker that has ended
        self._listener.bind(path)
        self._listener.listen(64)
        self._listener.setblocking(False)
        self._poll = select.poll()
        self._poll.register(pipes.read_fd, select.POLLIN)
        self._poll.register(self._listener, select.POLLIN)
        self._open: dict[int, Connection] = {}  # by file descriptor
        self._jobs: dict[int, tuple[Connection, int]] = {}  # by number
        self._numbers = count(1)
        self._ready: WorkerReady | None = None
        self._loaded: dict[str, ModelLoaded] = {}
        self._stats: StepStats | None = None
        self._stats_at = 0.0

    @property
    def closed(self) -> bool:
        """Whether the process that started the worker has gone."""
        return self._pipes.closed

    def close(self) -> None:
        """Closes the sockets."""
        for bound in (self._listener, *(connection.socket for connection in self._open.values())):
            bound.close()

    def receive(self, wait: float | None) -> list[ToWorker]:
        """Returns the messages that have arrived; waits up to `wait` seconds (None: without bound)
        for the first of them."""
        messages: list[ToWorker] = []
        until = math.inf if wait is None else time.monotonic() + wait
        while not self.closed:
            due = until if self._stats is None else min(until, self._stats_at)
            left = None if due == math.inf else 1000 * max(0.0, due - time.monotonic())
            for fd, event in self._poll.poll(left):
                if fd == self._listener.fileno():
                    self._accept()
                elif fd == self._pipes.read_fd:
                    messages += self._commands()
                else:
                    self._serve(self._open[fd], event, messages)
            self._send_stats()
            if messages or time.monotonic() >= until:
                break
        return messages

    def _commands(self) -> list[ToWorker]:
        """Returns the messages of the process that started the worker."""
        commands = self._pipes.receive(0.0)
        for message in commands:
            if isinstance(message, UnloadModel):
                self._loaded.pop(message.model, None)
                self._send_all(message)
                self._write_all()
        return commands

    def _serve(self, connection: Connection, event: int, messages: list[ToWorker]) -> None:
        if event & select.POLLOUT:
            self._write(connection)
        if event & ~select.POLLOUT:
            self._read(connection, messages)

    def _accept(self) -> None:
        connection = Connection(self._listener.accept()[0])
        self._open[connection.socket.fileno()] = connection
        self._poll.register(connection.socket, select.POLLIN)
        connection.frame += [self._ready] if self._ready else []
        connection.frame += self._loaded.values()
        self._write(connection)

    def _read(self, connection: Connection, messages: list[ToWorker]) -> None:
        """Takes the messages of a process, whose jobs get numbers."""
        try:
            data = connection.socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for message in connection.unpacker.feed(data):
            match message:
                case Job(id=id):
                    message.id = connection.numbers[id] = next(self._numbers)
                    self._jobs[message.id] = connection, id
                    messages.append(message)
                case Cancel(id=id) if id in connection.numbers:
                    messages.append(Cancel(connection.numbers[id]))
        if not data:
            self._poll.unregister(connection.socket)
            del self._open[connection.socket.fileno()]
            connection.socket.close()
            messages += [Cancel(number) for number in connection.numbers.values()]

    def _write(self, connection: Connection) -> None:
        """Sends what can be sent at once, and the rest when there is room."""
        waited = bool(connection.unsent)
        try:
            connection.write()
        except OSError:  # it has gone, or does not read
            connection.unsent.clear()
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)  # the next `receive` sees its end
        if waited != bool(connection.unsent):
            events = select.POLLIN if waited else select.POLLIN | select.POLLOUT
            self._poll.modify(connection.socket, events)

    def _write_all(self) -> None:
        for connection in self._open.values():
            if connection.frame:
                self._write(connection)

    def send(self, messages: list[FromWorker]) -> None:
        """Sends each message to those whom it concerns. Never blocks for an API process."""
        for message in messages:
            self._route(message)
        self._write_all()
        self._send_stats()

    def _route(self, message: FromWorker) -> None:
        match message:
            case Progress(id=number):
                connection, id = self._jobs[number]
                connection.frame.append(Progress(id, message.tokens))
            case JobResult(id=number) | Failed(id=number):
                connection, id = self._jobs.pop(number)
                del connection.numbers[id]
                if isinstance(message, JobResult):
                    message.id = id
                else:
                    message = Failed(id, message.kind, message.message)
                connection.frame.append(message)
            case Started(ids=numbers):
                for number in numbers:
                    connection, id = self._jobs[number]
                    connection.frame.append(Started((id,)))
            case StepStats():
                self._stats = message if self._stats is None else merged(self._stats, message)
            case WorkerReady():
                self._ready = message
                self._pipes.send([message])
                self._send_all(message)
            case ModelLoaded():
                self._pipes.send([message])
                if message.error is None:
                    self._loaded[message.model] = message
                    self._send_all(message)

    def _send_all(self, message: FromWorker) -> None:
        for connection in self._open.values():
            connection.frame.append(message)

    def _send_stats(self) -> None:
        now = time.monotonic()
        if self._stats is not None and now >= self._stats_at:
            self._pipes.send([self._stats])
            self._stats, self._stats_at = None, now + STATS_SECONDS


def merged(before: StepStats, after: StepStats) -> StepStats:
    """Returns the statistics of both times, with the state of the later one."""
    after.prefill_sequences += before.prefill_sequences
    after.prefill_tokens += before.prefill_tokens
    after.prefill_padded_tokens += before.prefill_padded_tokens
    after.steps = before.steps + after.steps
    return after
