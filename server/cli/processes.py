"""Several API processes before one pool of workers (`--api-processes`).

The supervisor, which the user starts, forks and replaces the other processes: the leader, which
owns the workers (`server.cli.leader`), and the API processes. It accepts connections and passes
them to the API processes in turns, and turns signals into orders to the others. It has no event
loop and no threads, so that it can fork at any time.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import gc
import logging
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from server.api.connection_limits import open_files
from server.cli import serve
from server.cli.leader import SOCKET, Leader
from server.config import Settings
from server.engine.client.remote_pool import PoolLink
from server.engine.ipc.options import NO_DEVICE, NO_DEVICE_STATUS
from server.errors import SettingsError, ending
from server.models.discovery import find_served
from server.services import FILES, METRICS, ServerProcess, Services

CONNECTION, DRAIN, CLOSE, FORCE, RELOAD = b"c", b"d", b"e", b"f", b"h"
"""Orders of the supervisor. The end of their channel counts as CLOSE."""
WRONG_SETTINGS = 2
"""Exit status of a process after a SettingsError."""
POLL_SECONDS = 0.5
ACCEPTED = 64
"""Connections that are passed on before signals are read."""
EMPTY_SECONDS = 0.02
KILL_SECONDS = 5.0
"""Time between a second signal and SIGKILL."""
PAUSE_SECONDS = 1.0
"""Least time between two starts of a process."""
FOLDER_CHARACTERS = 80
"""Longest path of the folder, because the path of a socket has a limit."""
log = logging.getLogger(__name__)


@dataclass(eq=False)
class Child:
    """A process and the supervisor's end of its channel."""

    main: Callable[[socket.socket], int]
    pid: int = 0
    channel: socket.socket | None = None
    started: float = field(default_factory=time.monotonic)

    def order(self, order: bytes, connection: socket.socket | None = None) -> bool:
        """Writes an order. Returns False if the process does not read or has ended."""
        if self.channel is None:
            return False
        rights = array.array("i", [connection.fileno()] if connection else [])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if connection else []
        try:
            return self.channel.sendmsg([order], ancillary) > 0
        except OSError:
            return False


class Supervisor:
    """Runs the leader and the API processes until a signal."""

    def __init__(self, settings: Settings, bound: socket.socket, folder: Path) -> None:
        self._settings, self._bound = settings, bound
        url = serve.browser_url(settings.host, bound.getsockname()[1])
        served = find_served(settings)
        self._leader = Child(partial(run_leader, settings, folder, served, url))
        self._members = [
            Child(partial(run_member, settings, str(number), folder, served, url))
            for number in range(settings.processes)
        ]
        self._turn = 0
        self._stop_at = float("inf")
        self._kill_at = float("inf")
        self._stopping = self.interrupted = False
        self.status = 0
        """Exit status of the process that makes the server end."""

    @property
    def _children(self) -> list[Child]:
        return [self._leader, *self._members]

    def run(self) -> None:
        """Returns when all processes have ended."""
        self._wakeup, writer = os.pipe()
        for end in (self._wakeup, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        self._bound.listen(serve.BACKLOG)
        self._bound.setblocking(False)
        gc.collect()
        gc.freeze()  # what the processes share stays unwritten
        for child in self._children:
            self._fork(child)
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._bound, select.POLLIN)
        while any(child.pid for child in self._children):
            for fd, _ in poll.poll(1000 * PAUSE_SECONDS):
                if fd == self._wakeup:
                    self._on_signals(os.read(fd, 4096))
                else:
                    for _ in range(ACCEPTED):
                        if not self._accept():
                            break
            self._reap()
            if time.monotonic() >= self._stop_at and not self._stopping:
                self._stopping = True
                while self._accept():
                    pass
                poll.unregister(self._bound)
                self._bound.close()
                self._order(CLOSE)
            for child in self._children if time.monotonic() >= self._kill_at else ():
                if child.pid:
                    os.kill(child.pid, signal.SIGKILL)
            if self._stopping and not any(child.pid for child in self._members):
                self._leader.order(CLOSE)

    def _accept(self) -> bool:
        """Passes a connection to the next process that takes it. Returns False without a
        connection."""
        if not any(member.channel for member in self._members):
            time.sleep(EMPTY_SECONDS)  # clients wait in the queue of the socket
            return False
        try:
            connection, _ = self._bound.accept()
        except OSError as error:  # none, or it has gone
            if error.errno in (errno.EMFILE, errno.ENFILE):
                open_files.left()
                time.sleep(EMPTY_SECONDS)
            return False
        with connection:
            for _ in self._members:
                self._turn = (self._turn + 1) % len(self._members)
                if self._members[self._turn].order(CONNECTION, connection):
                    break
        return True

    def _order(self, order: bytes) -> None:
        for child in self._members:
            child.order(order)

    def _on_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGHUP:
                self._leader.order(RELOAD)
            elif number in (signal.SIGTERM, signal.SIGINT):
                self.interrupted |= number == signal.SIGINT
                first = self._stop_at == float("inf")
                wait = self._settings.drain_seconds if first and number == signal.SIGTERM else 0.0
                self._stop_at = min(self._stop_at, time.monotonic() + wait)
                self._order(DRAIN if first else FORCE)
                if not first:
                    self._kill_at = min(self._kill_at, time.monotonic() + KILL_SECONDS)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if not pid:
                break
            for child in [child for child in self._children if child.pid == pid]:
                self._ended(child, os.waitstatus_to_exitcode(status))
        for child in self._children:
            late = time.monotonic() >= child.started + PAUSE_SECONDS
            if not child.pid and late and self._stop_at == float("inf"):
                self._fork(child)

    def _ended(self, child: Child, status: int) -> None:
        child.pid = 0
        if child.channel is not None:
            child.channel.close()
            child.channel = None
        if status in (WRONG_SETTINGS, NO_DEVICE_STATUS):
            self.status = status
            self._stop_at = 0.0
        elif self._stop_at == float("inf"):
            name = "the leader of the processes" if child is self._leader else "an API process"
            log.error("%s %s; starting another one", name, ending(status))

    def _fork(self, child: Child) -> None:
        child.started = time.monotonic()
        child.channel, other = socket.socketpair()
        child.channel.setblocking(False)
        sys.stderr.flush()
        child.pid = os.fork()
        if child.pid:
            other.close()
            return
        for sibling in self._children:
            if sibling.channel is not None:
                sibling.channel.close()
        self._bound.close()
        os.close(self._wakeup)
        os._exit(in_child(child.main, other))


def in_child(main: Callable[[socket.socket], int], channel: socket.socket) -> int:
    """Runs a process after its fork and returns its exit status. Handlers still ignore the signals
    that a service manager sends to all processes; programs that the process starts do not inherit
    handlers."""
    os.close(signal.set_wakeup_fd(-1))
    os.setpgrp()  # Ctrl-C on a terminal is for the supervisor
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        status = main(channel)
    except SettingsError as error:
        sys.stderr.write(f"attentive: {error}\n")
        status = WRONG_SETTINGS
    except Exception:
        log.exception("a process of the server failed")
    logging.shutdown()
    return status


def read_orders(
    channel: socket.socket, obey: Callable[[bytes, socket.socket | None], None]
) -> None:
    """Calls `obey` with each order of the supervisor and the connection that comes with it."""
    loop = asyncio.get_running_loop()
    channel.setblocking(False)

    def read() -> None:
        for _ in range(16):  # then other events have their turn
            try:
                order, descriptors, *_ = socket.recv_fds(channel, 1, 1)
            except BlockingIOError:
                return
            except OSError:
                order, descriptors = b"", []
            if not order:
                loop.remove_reader(channel.fileno())
            obey(order or CLOSE, socket.socket(fileno=descriptors[0]) if descriptors else None)
            if not order:
                return

    loop.add_reader(channel.fileno(), read)


class Member(serve.Server):
    """An API process, which gets its connections and orders from the supervisor."""

    def __init__(self, channel: socket.socket, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._channel = channel
        self._accepting: set[asyncio.Task[Any]] = set()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        read_orders(self._channel, self._obey)

    def announce(self) -> None:
        """Does nothing: the leader does."""

    def _obey(self, order: bytes, connection: socket.socket | None) -> None:
        if order == CONNECTION:
            if connection is None:  # there was no descriptor for it
                open_files.left()
                return
            task = asyncio.ensure_future(self._accept(connection))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)
        elif order == CLOSE:
            self.drain(0.0)
        elif order == DRAIN:
            self.drain(float("inf"))
        else:
            self.force_exit = self.should_exit = True

    async def _accept(self, connection: socket.socket) -> None:
        loop: Any = asyncio.get_running_loop()
        connection.setblocking(False)
        with contextlib.suppress(OSError):  # it has gone
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(self._new_protocol, connection)

    def _new_protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=None,
        )
        return protocol

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting:
            await asyncio.wait(self._accepting)
        await super().shutdown([])


def run_member(
    settings: Settings, name: str, folder: Path, served: Any, url: str, channel: socket.socket
) -> int:
    """Runs an API process and returns its exit status."""
    link = PoolLink(str(folder / SOCKET))
    try:
        services = Services(settings, process=ServerProcess(name, folder, served, link))
        config = serve.server_config(settings, services)
    except SettingsError:  # the leader says it
        return WRONG_SETTINGS
    server = Member(channel, config, services, url)
    server.run(sockets=[])
    return 0 if server.started else 1


def run_leader(
    settings: Settings, folder: Path, served: Any, url: str, channel: socket.socket
) -> int:
    """Runs the leader and returns its exit status."""

    async def run() -> int:
        services = Services(settings, process=ServerProcess("leader", folder, served))
        serve.server_config(settings, services)  # raises SettingsError as in the API processes
        ended, reloads = asyncio.Event(), set[asyncio.Task[None]]()

        def obey(order: bytes, connection: socket.socket | None) -> None:
            if order == RELOAD:
                task = asyncio.ensure_future(serve.reload(services))
                reloads.add(task)
                task.add_done_callback(reloads.discard)
            else:
                ended.set()

        await services.start()
        read_orders(channel, obey)
        serving = asyncio.ensure_future(Leader(settings, services).serve(folder))
        announcing = asyncio.ensure_future(serve.announce(services, url))
        while not (ended.is_set() or serving.done() or services.engine.workers.status().no_device):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), POLL_SECONDS)
        no_device = services.engine.workers.status().no_device
        for task in (serving, announcing):
            task.cancel()
        await services.stop()
        if not serving.cancelled() and serving.done():
            serving.result()
        return NO_DEVICE_STATUS if no_device else 0

    return asyncio.run(run())


def run(settings: Settings) -> int:
    """Runs a server of several processes and returns its exit status."""
    base = tempfile.gettempdir()
    near = base if len(base) < FOLDER_CHARACTERS else "/tmp"  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="attentive-", dir=near))
    for name in (FILES, METRICS):
        (folder / name).mkdir()
    try:
        with serve.listener(settings) as bound:
            supervisor = Supervisor(settings, bound, folder)
            log.info(
                "listening on %s, models are loading",
                serve.browser_url(settings.host, bound.getsockname()[1]),
            )
            supervisor.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    log.info("stopped")
    if supervisor.status == NO_DEVICE_STATUS:
        raise SettingsError(f"--device (ATTENTIVE_DEVICE): {NO_DEVICE}")
    if supervisor.interrupted:
        raise KeyboardInterrupt
    return supervisor.status
