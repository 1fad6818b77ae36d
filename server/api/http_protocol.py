"""Bounds of one connection below the application: bytes and time of heads and bodies, for callers without a key too.

uvicorn's protocol keeps an unfinished head without a bound, waits for it without end, and closes a connection whose
client has finished sending. `LimitedProtocol` changes this. Refusals have a status, one sentence and `Connection:
close`; they are not seen by the application.
"""

from __future__ import annotations

import asyncio
import http
import logging
import os
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import orjson
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from server.api.http_cycle import ResponseCycle
from server.api.middleware.request_body import WATCHERS
from server.api.request_headers import HEADERS, by_name

log = logging.getLogger(__name__)
HEAD_BYTES = 65_536
URL_BYTES = 32_768
"""Room for two texts of 512 tokens in percent-encoding."""
MOST_HEADERS = 128
PIPELINED = 64
"""Requests of one connection that wait for the answer to an earlier one."""
IDLE_SECONDS = 75.0
"""Time until the first byte of a new connection, and between an answer and the next request."""
HEAD_SECONDS = 20.0
BODY_SECONDS = 20.0
"""Time for a body, in addition to that at BODY_RATE."""
BODY_RATE = 500.0
"""Bytes per second that a body must have on average."""
LINGER_SECONDS = 2.0
"""Time for which the rest of a refused request is read and discarded. A connection closed at once would be reset, and
the client would not receive the answer."""
CONNECTION_BYTES = 16_384
"""Memory of a connection with an unfinished request, apart from the bytes it has received."""
PROBE_SECONDS = 0.25
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_MANY = "Too many unfinished requests are open; send this one again."


class Refused(Exception):
    """Stops the parser of a request that was refused."""


class UnfinishedRequests:
    """The bytes of all requests that have not arrived whole. Beyond `limit` the oldest request is refused."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._connections: dict[LimitedProtocol, int] = {}

    def add(self, connection: LimitedProtocol, count: int) -> None:
        """Counts bytes of an unfinished request. They are counted until `remove`."""
        before = self._connections.get(connection)
        if before is None:
            before, count = 0, count + CONNECTION_BYTES
        self._connections[connection] = before + count
        self.bytes += count
        while self.bytes > self.limit:
            oldest = next(iter(self._connections))
            self.remove(oldest)
            oldest.refuse(503, TOO_MANY)

    def remove(self, connection: LimitedProtocol) -> None:
        """Forgets the request of a connection: it has arrived, or the connection has ended."""
        self.bytes -= self._connections.pop(connection, 0)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds. `check_time` is to be called about once per second."""

    def __init__(self, *arguments: Any, unfinished: UnfinishedRequests, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unfinished = unfinished
        self._in_head = self._in_body = self._refused = False
        self._received = 0
        """Bytes since the head began; in a body, bytes since its latest piece."""
        self._deadline = self.loop.time() + IDLE_SECONDS
        self._watchers: list[Callable[[], None]] = []

    # -- events of the connection --------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._received += len(data)
        self._parse(data)
        if (self._in_head or self._in_body) and not self._refused:
            self._check_unfinished(len(data))

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except HttpParserError:
            self.send_400_response("")

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads the request that offered another protocol as one without the offer. `rest` follows its head. The parser
        skips the body of such a request, so a new one reads the head again."""
        if self.parser.get_method() == b"CONNECT":
            self.send_400_response("")
            return
        headers = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        first = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parse(b"\r\n".join([first, *headers, b"", b""]) + rest)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Keeps the connection open if its last request has arrived whole and is not answered."""
        if self._refused or self._in_head or self._in_body or self.cycle is None or self.cycle.response_complete:
            return None
        self.cycle.keep_alive = False
        if self.scope["http_version"] == "1.1" and not self.pipeline and not self.cycle.response_started:
            self.transport.write(CONTINUE)  # a client that has closed its socket answers with a reset
            self.loop.call_later(PROBE_SECONDS, self._check_reset)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._unfinished.remove(self)
        super().connection_lost(exc)
        for disconnect in tuple(self._watchers):
            disconnect()

    def check_time(self, now: float) -> None:
        """Ends a connection whose client is too slow."""
        if now < self._deadline or self._refused or self.flow.read_paused:
            return
        if self._in_body:
            self.refuse(408, "The body of the request came too slowly.")
        elif self._in_head and not self._busy():
            self.refuse(408, "The head of the request came too slowly.")
        elif not self._in_head and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    # -- events of the parser ------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[WATCHERS] = self._watchers  # type: ignore[literal-required]
        self._in_head = True
        self._deadline = self.loop.time() + HEAD_SECONDS

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Starts the request, or queues it behind the one that is being answered."""
        self._check_head(self._received if self._received <= HEAD_BYTES else self._parsed_bytes())
        if len(self.pipeline) >= PIPELINED:
            self.refuse(503, "Too many requests wait on this connection.")
        if self._refused:
            raise Refused
        if self.parser.should_upgrade():
            return
        self._in_head, self._in_body = False, True
        self._received = 0
        self._deadline += BODY_SECONDS
        before, self.cycle = self.cycle, self._cycle()
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _cycle(self) -> ResponseCycle:
        """Completes the ASGI scope and returns the cycle of the request whose head has arrived."""
        version, url = self.parser.get_http_version(), parse_url(self.url)
        scope: Any = self.scope
        path = url.path.decode("ascii")
        scope["http_version"] = version
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        scope[HEADERS] = headers = by_name(self.headers)
        return ResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=headers.get(b"expect", b"").lower() == b"100-continue",
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )

    def on_body(self, body: bytes) -> None:
        self._received = 0
        self._deadline += len(body) / BODY_RATE
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_body = False
        self._received = 0
        self._unfinished.remove(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continues with the next request. `check_time` ends an idle connection, so it needs no timer of its own."""
        self._deadline = self.loop.time() + IDLE_SECONDS
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle.response_complete and cycle.more_body and not cycle.keep_alive:  # answered before its body has arrived
            self._unfinished.remove(self)
            self._linger()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    # -- refusals ------------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        if not self._refused:
            self.refuse(400, "This is not a valid HTTP request.")

    def refuse(self, status: int, sentence: str) -> None:
        """Answers with an error if no other answer is in progress, and ends the connection."""
        if self._refused or self.transport.is_closing():
            return
        identity = os.urandom(16).hex()
        log.info("connection refused: %s", sentence, extra={"status": status, "request_id": identity})
        self._unset_keepalive_if_required()
        if self._busy():
            self._refused = True
            self.transport.abort()
            return
        body = orjson.dumps({"error": sentence})
        retry = "Retry-After: 1\r\n" if status == 503 else ""
        head = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nX-Request-Id: {identity}\r\n{retry}Connection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self._linger()
        if self.cycle is not None and not self.cycle.response_complete:  # its task waits for the body
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _linger(self) -> None:
        """Ends the connection after the client has had time to send the rest, which is discarded, and to read the answer."""
        self._refused = True
        self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _busy(self) -> bool:
        """Returns whether an answer is being written, or an earlier request is to be answered first."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        return cycle.response_started or bool(self.pipeline) or not self._in_body

    def _check_head(self, size: int) -> None:
        if len(self.url) > URL_BYTES:
            self.refuse(414, f"The URL is over the limit of {URL_BYTES:,} bytes.")
        elif len(self.headers) > MOST_HEADERS:
            self.refuse(431, f"The request has more than {MOST_HEADERS} headers.")
        elif size > HEAD_BYTES:
            self.refuse(431, f"The head of the request is over the limit of {HEAD_BYTES:,} bytes.")

    def _parsed_bytes(self) -> int:
        """Returns the bytes of a whole head, without those of the body that arrived with it."""
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _check_unfinished(self, count: int) -> None:
        if self._in_head:
            self._check_head(self._received)
        elif len(self.headers) > MOST_HEADERS or self._received > HEAD_BYTES:
            self.refuse(431, "The body of the request has too many trailers.")
        if not self._refused:
            self._unfinished.add(self, count)

    def _check_reset(self) -> None:
        """Ends a half-closed connection if the client has closed it entirely: no client waits for the answer."""
        if self.transport.is_closing() or self.cycle.response_complete:
            return
        if self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        else:
            self.loop.call_later(PROBE_SECONDS, self._check_reset)
