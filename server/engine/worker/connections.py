"""The connections of a worker: the pipes of the process that started it, and with several API
processes a socket of each."""

from __future__ import annotations

import contextlib
import os
import select
import socket
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
from server.engine.ipc.transport import Unpacker, pack

UNSENT_BYTES = 256_000_000
"""A process that leaves more answers unread is disconnected."""
_READ = 1 << 20


class Connection:
    """A process: the file descriptors from and to it, bytes and messages that are not sent yet, and
    the numbers of its unanswered jobs by its own ids."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader, self.writer = reader, writer
        self.unpacker, self.unsent = Unpacker(), bytearray()
        self.frame: list[FromWorker] = []
        self.numbers: dict[int, int] = {}


class Connections:
    """Numbers the jobs of all processes in the order of their arrival, and sends each answer to the
    process of its job. A process that connects gets the state of the worker first; the jobs of one
    that has gone are cancelled. The process at `reader` and `writer` loads models and gets the
    statistics; the others connect to the socket `path`, empty without them."""

    def __init__(self, reader: int, writer: int, path: str = "") -> None:
        self._poll = select.poll()
        self._open: dict[int, Connection] = {}  # by both of their file descriptors
        self._jobs: dict[int, tuple[Connection, int]] = {}  # the process and its id, by number
        self._numbers = count(1)
        self._ready: WorkerReady | None = None
        self._loaded: dict[str, ModelLoaded] = {}
        self._received: list[ToWorker] = []
        self._owner = self._connect(reader, writer)
        self._listener = socket.socket(socket.AF_UNIX)
        if path:
            Path(path).unlink(missing_ok=True)  # of a worker that has ended
            self._listener.bind(path)
            self._listener.listen(64)
            self._listener.setblocking(False)
            self._poll.register(self._listener, select.POLLIN)

    @property
    def closed(self) -> bool:
        """Whether the process that started the worker has gone."""
        return self._owner.reader not in self._open

    @property
    def shared(self) -> bool:
        """Whether further processes are connected."""
        return len(self._open) > 2

    def close(self) -> None:
        """Closes everything."""
        for connection in {*self._open.values()}:
            self._drop(connection)
        self._listener.close()

    def receive(self, wait: float | None) -> list[ToWorker]:
        """Returns the messages that have arrived; waits at most `wait` seconds (None: no limit) for
        the first."""
        timeout = 0 if self._received else None if wait is None else 1000 * wait
        while not self.closed:
            for fd, _ in self._poll.poll(timeout):
                if fd == self._listener.fileno():
                    self._accept()
                elif (connection := self._open.get(fd)) is not None:
                    (self._write if fd == connection.writer else self._read)(connection)
            if self._received or wait is not None:
                break
        messages, self._received = self._received, []
        return messages

    def send(self, messages: list[FromWorker]) -> None:
        """Sends each message to the processes that it concerns. Never blocks."""
        for message in messages:
            self._route(message)
        for connection in {*self._open.values()}:
            if connection.frame:
                self._write(connection)

    def _connect(self, reader: int, writer: int) -> Connection:
        for fd in (reader, writer):
            os.set_blocking(fd, False)
        connection = self._open[reader] = self._open[writer] = Connection(reader, writer)
        self._poll.register(reader, select.POLLIN)
        return connection

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it has gone, or there is no file descriptor left
            accepted, _ = self._listener.accept()
            connection = self._connect(os.dup(accepted.fileno()), accepted.detach())
            connection.frame += [self._ready] if self._ready else []
            connection.frame += self._loaded.values()
            self._write(connection)

    def _drop(self, connection: Connection) -> None:
        """Closes a connection and cancels its jobs."""
        for fd in (connection.reader, connection.writer):
            if self._open.pop(fd, None) is not None:
                with contextlib.suppress(KeyError):  # it has nothing to send
                    self._poll.unregister(fd)
                os.close(fd)
        self._received += [Cancel(number) for number in connection.numbers.values()]

    def _read(self, connection: Connection) -> None:
        """Takes the messages of a process, whose jobs get numbers."""
        try:
            data = os.read(connection.reader, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for message in connection.unpacker.feed(data):
            match message:
                case Job(id=id):
                    message.id = connection.numbers[id] = next(self._numbers)
                    self._jobs[message.id] = connection, id
                    self._received.append(message)
                case Cancel(id=id):
                    if id in connection.numbers:  # it is not answered
                        self._received.append(Cancel(connection.numbers[id]))
                case _:
                    if isinstance(message, UnloadModel):
                        self._loaded.pop(message.model, None)
                        self._tell_others(message)
                    self._received.append(message)
        if not data:
            self._drop(connection)

    def _write(self, connection: Connection) -> None:
        """Sends what can be sent at once, and the rest when there is room."""
        frame, connection.frame = connection.frame, []
        unsent, waited = connection.unsent, bool(connection.unsent)
        if frame:
            unsent += pack(frame)
        try:
            while unsent:
                del unsent[: os.write(connection.writer, unsent)]
        except BlockingIOError:
            if not waited:
                self._poll.register(connection.writer, select.POLLOUT)
            if len(unsent) > UNSENT_BYTES:
                self._drop(connection)
        except OSError:  # it has gone
            self._drop(connection)
        else:
            if waited:
                self._poll.unregister(connection.writer)

    def _route(self, message: FromWorker) -> None:
        match message:
            case Progress(id=number) | JobResult(id=number) | Failed(id=number):
                connection, message.id = self._jobs[number]
                if not isinstance(message, Progress):
                    del self._jobs[number], connection.numbers[message.id]
                connection.frame.append(message)
            case Started(ids=numbers):
                for number in numbers:
                    connection, id = self._jobs[number]
                    connection.frame.append(Started((id,)))
            case _:
                self._owner.frame.append(message)
                if isinstance(message, StepStats):
                    return
                if isinstance(message, WorkerReady):
                    self._ready = message
                elif isinstance(message, ModelLoaded) and message.error is None:
                    self._loaded[message.model] = message
                else:
                    return
                self._tell_others(message)

    def _tell_others(self, message: FromWorker) -> None:
        for connection in {*self._open.values()} - {self._owner}:
            connection.frame.append(message)
            self._write(connection)
