"""`attentive serve`: the HTTP server. After SIGTERM or Ctrl-C it finishes the accepted requests."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import resource
import select
import signal
import socket
import sys
import threading
import time
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from server.access.authentication import trusted_hosts
from server.api.app import create_app
from server.api.connection_limits import LimitedProtocol, UnfinishedRequests
from server.config import Settings, add_flags, unknown_variables
from server.engine.ipc.options import NO_DEVICE
from server.errors import SettingsError
from server.observability.logging import configure_logging
from server.process import tune_garbage_collector, use_large_pages
from server.services import Services

NAME = "serve"
HELP = "Serve translations over HTTP."
LISTENERS = 64
"""Duplicates of the listening socket. uvloop accepts one connection per listening socket in one
iteration of its loop, and iterations are long under load."""
BACKLOG = 4_096
"""Connections that wait to be accepted; the kernel's `somaxconn` may be less."""
OPEN_FILES = 65_536
UNFINISHED_BYTES = 64_000_000
"""Bytes of incomplete requests over all connections; at least two bodies fit."""
SWITCH_SECONDS = 0.00005
"""Time that the event loop waits for another thread, instead of Python's 5 ms."""
READ_ITERATIONS = 2
"""Iterations of the event loop after which an accepted connection is read: one may be in
progress."""
TICKS = 5
"""Ticks of uvicorn, 0.1 seconds each, between two checks for slow or gone clients."""
BUSY_REQUESTS, LARGE_PAGES_TWICE = 10, 60.0
"""Requests between two of these checks after which the data of the process moves to large pages,
and seconds until it moves again: the first requests load more. An idle process keeps the small
pages that it shares with others."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OWN_STATE = (
    "the state is in memory: a restart loses it, other servers do not share it, and there are no "
    "API keys (--state)"
)
log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """Uvicorn with draining, reloading at SIGHUP, and exit status 0 after SIGTERM. `url` is for the
    log.

    After SIGTERM it accepts requests for `--drain-seconds`, while /ready is 503 for load balancers;
    every answer then closes its connection. `interrupted` is True after Ctrl-C.
    """

    def __init__(self, config: uvicorn.Config, services: Services, url: str) -> None:
        super().__init__(config)
        self.interrupted = False
        self._close_at = float("inf")
        """Time of time.monotonic() at which the server stops listening."""
        self._services = services
        self._url = url
        self._reloading: asyncio.Future[None] | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._requests = 0
        self._move_at = 0.0
        self._moving: asyncio.Task[int] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen, tunes the garbage collector and installs the handler of SIGHUP."""
        await super().startup(sockets)
        if not self.started:
            return
        self.announce()
        if threading.current_thread() is threading.main_thread():
            tune_garbage_collector()
            sys.setswitchinterval(SWITCH_SECONDS)
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)

    def announce(self) -> None:
        """Logs that the server listens, and later that it is ready."""
        log.info("listening on %s, models are loading", self._url)
        self._announcing = asyncio.create_task(announce(self._services, self._url))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops listening and finishes the requests that clients have sent. It first accepts the
        waiting connections and reads what they and idle ones have sent, because a connection that
        is closed before is reset."""
        waiting = select.poll()
        for bound in (sockets or [])[:1]:  # the others are duplicates
            waiting.register(bound, select.POLLIN)
        # clients may connect without end
        for _ in range(self.config.backlog // max(1, len(sockets or []))):
            if not waiting.poll(0):
                break
            await asyncio.sleep(0)
        for _ in range(READ_ITERATIONS):
            await asyncio.sleep(0)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Ends connections of slow or gone clients, and the server where its device does not
        exist."""
        if counter % TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, LimitedProtocol):
                    connection.check(now)
            before, self._requests = self._requests, self.server_state.total_requests
            if self._requests - before >= BUSY_REQUESTS and now >= self._move_at:
                self._move_at = now + LARGE_PAGES_TWICE if self._moving is None else math.inf
                self._moving = asyncio.create_task(asyncio.to_thread(use_large_pages))
            self.should_exit |= self._services.engine.workers.status().no_device
        self.should_exit |= time.monotonic() >= self._close_at
        return await super().on_tick(counter)

    def _reload(self) -> None:
        self._reloading = asyncio.ensure_future(reload(self._services))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drains at the first signal and ends at once at a second one."""
        self.interrupted = self.interrupted or sig == signal.SIGINT
        self.force_exit = self.should_exit = self._services.draining
        self.drain(self._services.settings.drain_seconds if sig == signal.SIGTERM else 0.0)

    def drain(self, seconds: float) -> None:
        """Stops listening after `seconds`; every answer then closes its connection."""
        self._services.draining = True
        close = (b"connection", b"close")
        self.config.encoded_headers = [*self.config.encoded_headers, close]
        self.server_state.default_headers.append(close)  # uvicorn renews this list once per second
        self._close_at = min(self._close_at, time.monotonic() + seconds)


async def announce(services: Services, url: str) -> None:
    """Logs when translations are served or that no model could be loaded, and warns that the state
    of a server for others is in memory."""
    await services.loaded()
    status = services.engine.workers.status()
    if status.no_device:
        return  # the command ends and says so
    if services.readiness == "failed":
        log.error("no model could be loaded: %s", " ".join(services.models.errors.values()))
    elif not services.draining:
        fields = {
            "models": ", ".join(sorted(model.name for model in services.translator.catalog.models))
        }
        fields |= {"device": status.device, "dtype": status.dtype}
        log.info("ready: open %s in a browser", url, extra=fields)
    if (
        services.state is None
        and services.settings.data is None
        and services.settings.host not in LOOPBACK
    ):
        log.warning("%s", OWN_STATE)


async def reload(services: Services) -> None:
    try:
        log.info("models reloaded", extra=dict(await services.models.reload()))
    except SettingsError as error:
        log.error("models not reloaded: %s", error)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = Settings.read(arguments)
    configure_logging(settings.log_level, settings.log_format)
    for sentence in unknown_variables():
        log.warning("%s", sentence)
    if settings.processes > 1:
        from server.cli import processes

        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        allow_many_connections()
        return processes.run(settings)
    services = Services(settings)
    config = server_config(settings, services)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    allow_many_connections()
    with listener(settings) as bound:
        server = Server(config, services, browser_url(settings.host, bound.getsockname()[1]))
        server.run(sockets=[bound, *(bound.dup() for _ in range(LISTENERS - 1))])
    log.info("stopped")
    if services.engine.workers.status().no_device:
        raise SettingsError(f"--device (ATTENTIVE_DEVICE): {NO_DEVICE}")
    if server.interrupted:
        raise KeyboardInterrupt
    return 0 if server.started else 1


def browser_url(host: str, port: int) -> str:
    """Returns the address for a browser on this machine."""
    if host in LOOPBACK or host in {"", "0.0.0.0", "::"}:  # noqa: S104  compared, not bound
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server_config(settings: Settings, services: Services) -> uvicorn.Config:
    proxies = trusted_hosts(settings.trusted_proxies)
    unfinished = UnfinishedRequests(
        max(UNFINISHED_BYTES // settings.processes, 2 * settings.body_bytes)
    )
    protocol: Any = partial(LimitedProtocol, unfinished=unfinished)
    return uvicorn.Config(
        create_app(settings, services),
        loop="auto",  # uvloop where it is installed
        http=protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        backlog=BACKLOG,
        timeout_graceful_shutdown=max(1, round(settings.grace_seconds)),
    )


def allow_many_connections() -> None:
    """Raises the limit of open files: each waiting request has a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def listener(settings: Settings) -> socket.socket:
    six = ":" in settings.host
    family = socket.AF_INET6 if six else socket.AF_INET
    try:
        return socket.create_server(
            (settings.host, settings.port), family=family, dualstack_ipv6=six
        )
    except OSError as error:
        reason = str(error.strerror).partition(" (while ")[0]
        raise SettingsError(
            f"--host and --port: cannot listen on {settings.host} port {settings.port}: {reason}."
        ) from None
