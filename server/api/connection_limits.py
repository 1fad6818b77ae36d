"""Bounds of a connection in bytes and in time: uvicorn waits for heads and bodies without end, and for
clients that have gone.

A refusal has a status, one sentence and `Connection: close`. It follows the answers to earlier
requests; the application does not see it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import resource
import select
import time
from http import HTTPMethod
from typing import Any, Literal
from urllib.parse import unquote

import orjson
from httptools import (
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
    parse_url,
)
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from server.api.middleware.entrance import CANCELLED_AT_DISCONNECT
from server.errors import FILES

CONTROL = bytes(range(32)) + b"\x7f"
OTHER_LENGTH = frozenset({b"connection", b"transfer-encoding"})
"""Other headers that say how an answer ends."""


class Cycle(RequestResponseCycle):
    """uvicorn's request and answer, but with the head and the body of an answer in one write, unless
    it is a stream."""

    _head = b""  # not yet sent

    async def send(self, message: Any) -> None:
        if self.disconnected:
            return
        if self.flow.write_paused:
            await self.flow.drain()
        if not self.response_started:
            self._head = self._begin(message)
            if self._head:
                return
        elif self._head:
            self._send_first(message)
            return
        await super().send(message)

    def _begin(self, message: Any) -> bytes:
        """Begins an answer with a stated length on a connection that stays open, and returns its
        head; returns nothing for other answers."""
        headers = [*self.default_headers, *message.get("headers", ())]
        named = dict(headers)
        length = int(named.get(b"content-length", 0))
        if (
            not (length and self.keep_alive)
            or self.scope["method"] == "HEAD"
            or not OTHER_LENGTH.isdisjoint(named)
        ):
            return b""
        self.response_started, self.waiting_for_100_continue = True, False
        self.chunked_encoding, self.expected_content_length = False, length
        lines = [
            STATUS_LINE[message["status"]],
            *[b"%b: %b\r\n" % header for header in headers],
            b"\r\n",
        ]
        head = b"".join(lines)
        if len(head) - len(head.translate(None, CONTROL)) != 2 * len(lines):
            raise RuntimeError("A header has a control character.")
        return head

    def _send_first(self, message: Any) -> None:
        head, self._head = self._head, b""
        self.expected_content_length -= len(message["body"])
        ended = not message.get("more_body", False)
        if self.expected_content_length < 0 or (ended and self.expected_content_length):
            raise RuntimeError("The body has not the length that the answer states.")
        self.transport.write(head + message["body"])
        if ended:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()


def write_answers_at_once() -> None:
    """Makes uvicorn's own protocol use `Cycle`, where another program listens."""
    httptools_impl.RequestResponseCycle = Cycle  # type: ignore[misc]


log = logging.getLogger(__name__)
HEAD_BYTES = 65_536
URL_BYTES = 32_768  # two texts of 512 tokens in percent-encoding
MOST_HEADERS = 128
PIPELINED = 64  # requests of one connection that wait for the answer to an earlier one
# before the first byte of a connection, and between an answer and the next request
IDLE_SECONDS = 75
PART_SECONDS = 20.0  # for a head, and for a body in addition to its time at BODY_RATE
BODY_RATE = 500.0  # bytes per second
# a connection that is closed before its client has sent everything is reset, and the answer lost
LINGER_SECONDS = 2.0
# descriptors that connections leave to files and programs; of a small limit a quarter
KEPT_FILES = 256
LINGERING_FILES = 0.5  # part of these below which a connection is closed without an answer
FILES_LOG_SECONDS = 10.0
NO_DESCRIPTOR = 1 << 31  # higher than any: where none could be opened
FILES_USED_UP = "out of %s: connections get 503; the limit of process %d is %d; %s"
# memory of a connection with an unfinished request, without the bytes received
CONNECTION_BYTES = 16_384
HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")
METHOD = re.compile(rb"^([!#-'*+.^_`|~0-9A-Za-z-]+) [^ \r\n]+ HTTP/1\.[01]\r?$", re.MULTILINE)
METHODS = {method.encode() for method in HTTPMethod}
INVALID = (400, "This is not a valid HTTP request.")
EXTENSIONS: dict[str, dict[object, object]] = {CANCELLED_AT_DISCONNECT: {}}


class UnfinishedRequests:
    """Counts the bytes of all requests that have not arrived whole, and refuses the oldest beyond
    `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._connections: dict[LimitedProtocol, int] = {}

    def add(self, connection: LimitedProtocol, count: int) -> None:
        """Counts bytes of an unfinished request until `remove`."""
        count += 0 if connection in self._connections else CONNECTION_BYTES
        self._connections[connection] = self._connections.get(connection, 0) + count
        self.bytes += count
        while self.bytes > self.limit:
            oldest = next(iter(self._connections))
            self.remove(oldest)
            oldest.refuse(503, "Too many unfinished requests are open; send this one again.")

    def remove(self, connection: LimitedProtocol) -> None:
        """Forgets a request that has arrived or whose connection has ended."""
        self.bytes -= self._connections.pop(connection, 0)


class OpenFiles:
    """Keeps file descriptors free: without them the kernel ends connections unanswered, and files,
    stores and workers fail."""

    def __init__(self) -> None:
        self._refused = 0
        self._log_at = 0.0

    def left(self, descriptor: int = NO_DESCRIPTOR) -> float:
        """Returns the free part of the descriptors that connections must leave, by the lowest free
        `descriptor`. A part less than 1 is logged, at most every FILES_LOG_SECONDS."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY:
            return 1.0
        kept = min(KEPT_FILES, limit // 4)
        if (part := (limit - descriptor) / max(1, kept)) > 1.0:
            return 1.0
        self._refused += 1
        if (now := time.monotonic()) >= self._log_at:
            log.error(
                FILES_USED_UP,
                FILES.name,
                os.getpid(),
                limit,
                FILES.remedy,
                extra={"connections": self._refused},
            )
            self._refused, self._log_at = 0, now + FILES_LOG_SECONDS
        return part


open_files = OpenFiles()


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds; cancels the task of a request whose client disconnects. Call
    `check` about twice per second."""

    def __init__(self, *arguments: Any, unfinished: UnfinishedRequests, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unfinished = unfinished
        self._part: Literal["head", "body"] | None = None  # of a request, that is arriving
        self._received = 0  # bytes since the head began; in a body, bytes since its latest piece
        self._deadline = self.loop.time() + IDLE_SECONDS
        self._refused = False
        self._refusal = b""  # that is still to be sent
        # `cycle` is that of the request which came last
        self._answering: RequestResponseCycle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        left = open_files.left(transport.get_extra_info("socket").fileno())
        if left < LINGERING_FILES:  # those that are refused stay open for a while too
            transport.abort()
        elif left < 1.0:
            self.refuse(503, "The server has too many connections; try again later.", logged=False)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._received += len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except HttpParserInvalidMethodError:  # also of what is not HTTP, such as TLS
            other = set(METHOD.findall(data)) - METHODS
            self.refuse(*((501, "This server does not know the method.") if other else INVALID))
        except HttpParserError:
            self.refuse(*INVALID)
        if self._part and not self._refused:
            self._check_head(self._received)
            self._unfinished.add(self, len(data))

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads a request again without its offer of another protocol (Java's HttpClient), because
        the parser skips its body."""
        first = b"%b %b HTTP/%b" % (
            self.parser.get_method(),
            self.url,
            self.parser.get_http_version().encode(),
        )
        lines = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = HttpRequestParser(self)
        self.data_received(b"\r\n".join([first, *lines, b"", b""]) + rest)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = EXTENSIONS
        self._part = "head"
        self._deadline = self.loop.time() + PART_SECONDS

    def on_headers_complete(self) -> None:
        size = self._received
        if size > HEAD_BYTES:  # with a part of the body
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self._check_head(size)
        if len(self.pipeline) >= PIPELINED:
            self.refuse(503, "Too many requests wait on this connection.")
        version = self.parser.get_http_version()
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or not (hosts or version == "1.0") or not all(map(HOST.fullmatch, hosts)):
            self.refuse(400, "A request needs one valid Host header.")
        method = self.parser.get_method()
        if self._refused or method == b"CONNECT":
            raise ValueError("refused")  # ends the parser
        if not self.parser.should_upgrade():
            self._part, self._received = "body", 0
            self._deadline += PART_SECONDS
            self._begin(method.decode("ascii"), version)

    def _begin(self, method: str, version: str) -> None:
        """Begins a request after its head, as uvicorn does."""
        url = parse_url(self.url)
        path = url.path.decode("ascii")
        self.scope["method"], self.scope["http_version"] = method, version
        self.scope["path"] = unquote(path) if "%" in path else path
        self.scope["raw_path"], self.scope["query_string"] = url.path, url.query or b""
        before = self.cycle
        self.cycle = Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        self._received = 0
        self._deadline += len(body) / BODY_RATE
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._part, self._received = None, 0
            self._unfinished.remove(self)
            super().on_message_complete()
            # uvicorn pauses within a large body, and would not see that the client goes
            if not self.pipeline:
                self.flow.resume_reading()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        self._task = self.loop.create_task(cycle.run_asgi(app))
        self._task.add_done_callback(self.tasks.discard)
        self.tasks.add(self._task)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._refusal and not self.pipeline:
            self._send_refusal()
        elif not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            else:
                self._deadline = self.loop.time() + IDLE_SECONDS

    def _check_head(self, size: int) -> None:
        if len(self.url) > URL_BYTES:
            self.refuse(414, f"The URL is over the limit of {URL_BYTES:,} bytes.")
        elif len(self.headers) > MOST_HEADERS:  # including trailers
            self.refuse(431, f"The request has more than {MOST_HEADERS} headers.")
        elif size > HEAD_BYTES:
            self.refuse(431, f"The head of the request is over the limit of {HEAD_BYTES:,} bytes.")

    def check(self, now: float) -> None:
        """Ends a connection whose client is too slow, or has gone while reading is paused."""
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            if has_gone(self.transport):
                self.transport.abort()
        elif now >= self._deadline and self._part:
            self.refuse(408, f"The {self._part} of the request came too slowly.")
        elif now >= self._deadline and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unfinished.remove(self)
        self.pipeline.clear()
        if (
            self._answering is not None
            and self._task is not None
            and not self._answering.response_complete
        ):
            self._answering.disconnected = True
            self._task.cancel()
        super().connection_lost(exc)

    def refuse(self, status: int, sentence: str, *, logged: bool = True) -> None:
        """Answers with an error after the answers to earlier requests, and ends the connection."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        identity = os.urandom(16).hex()
        if logged:
            log.info(
                "connection refused: %s", sentence, extra={"status": status, "request_id": identity}
            )
        body = orjson.dumps({"error": sentence})
        head = (
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nX-Request-Id: "
            f"{identity}\r\n"
        )
        head += "Retry-After: 1\r\n" if status == 503 else ""
        self._refusal = (
            STATUS_LINE[status] + head.encode("ascii") + b"Connection: close\r\n\r\n" + body
        )
        answered = (
            self._answering if self._answering and not self._answering.response_complete else None
        )
        if self._part == "body" and self.pipeline:
            self.pipeline.popleft()  # the refused request
        elif answered and self._part == "body" and answered.response_started:
            self.transport.abort()
            return
        elif not answered or self._part == "body":
            self._send_refusal()
        self.flow.resume_reading()  # what comes is ignored

    def _send_refusal(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._refusal)
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        self._refusal = b""


def has_gone(transport: asyncio.Transport) -> bool:
    """Returns whether the client has closed the connection, also before its data is read."""
    waiting = select.poll()
    waiting.register(transport.get_extra_info("socket").fileno(), getattr(select, "POLLRDHUP", 0))
    return bool(waiting.poll(0))
