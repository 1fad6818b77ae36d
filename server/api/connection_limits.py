"""Bounds of one connection below the application, in bytes and in time: uvicorn waits for heads and bodies without end.

A refusal has a status, one sentence and `Connection: close`; the application does not see it.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Literal

import orjson
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

log = logging.getLogger(__name__)
HEAD_BYTES = 65_536
URL_BYTES = 32_768  # two texts of 512 tokens in percent-encoding
MOST_HEADERS = 128
PIPELINED = 64  # requests of one connection that wait for the answer to an earlier one
IDLE_SECONDS = 75  # before the first byte of a connection, and between an answer and the next request
PART_SECONDS = 20.0  # for a head, and for a body in addition to its time at BODY_RATE
BODY_RATE = 500.0  # bytes per second
LINGER_SECONDS = 2.0  # a connection that is closed before its client has sent everything is reset, and the answer lost
CONNECTION_BYTES = 16_384  # memory of a connection with an unfinished request, without the bytes received


class UnfinishedRequests:
    """The bytes of all requests that have not arrived whole. Beyond `limit` the oldest request is refused."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._connections: dict[LimitedProtocol, int] = {}

    def add(self, connection: LimitedProtocol, count: int) -> None:
        """Counts bytes of an unfinished request. They are counted until `remove`."""
        count += 0 if connection in self._connections else CONNECTION_BYTES
        self._connections[connection] = self._connections.get(connection, 0) + count
        self.bytes += count
        while self.bytes > self.limit:
            oldest = next(iter(self._connections))
            self.remove(oldest)
            oldest.refuse(503, "Too many unfinished requests are open; send this one again.")

    def remove(self, connection: LimitedProtocol) -> None:
        """Forgets the request of a connection: it has arrived, or the connection has ended."""
        self.bytes -= self._connections.pop(connection, 0)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds. `check_time` is to be called about once per second."""

    def __init__(self, *arguments: Any, unfinished: UnfinishedRequests, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unfinished = unfinished
        self._part: Literal["head", "body"] | None = None  # of a request, that is arriving
        self._received = 0  # bytes since the head began; in a body, bytes since its latest piece
        self._deadline = self.loop.time() + IDLE_SECONDS
        self._refused = False

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._received += len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except HttpParserError:
            self.refuse(400, "This is not a valid HTTP request.")
        if self._part and not self._refused:
            self._check_head(self._received)
            self._unfinished.add(self, len(data))

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads a request again without its offer of another protocol (Java's HttpClient): the parser skips its body."""
        first = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        lines = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = HttpRequestParser(self)
        self.data_received(b"\r\n".join([first, *lines, b"", b""]) + rest)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self._part = "head"
        self._deadline = self.loop.time() + PART_SECONDS

    def on_headers_complete(self) -> None:
        self._check_head(len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers))
        if len(self.pipeline) >= PIPELINED:
            self.refuse(503, "Too many requests wait on this connection.")
        if self._refused or self.parser.get_method() == b"CONNECT":
            raise ValueError("refused")  # ends the parser
        if not self.parser.should_upgrade():
            self._part, self._received = "body", 0
            self._deadline += PART_SECONDS
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._received = 0
        self._deadline += len(body) / BODY_RATE
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._part, self._received = None, 0
            self._unfinished.remove(self)
            super().on_message_complete()

    def _check_head(self, size: int) -> None:
        if len(self.url) > URL_BYTES:
            self.refuse(414, f"The URL is over the limit of {URL_BYTES:,} bytes.")
        elif len(self.headers) > MOST_HEADERS:  # including trailers
            self.refuse(431, f"The request has more than {MOST_HEADERS} headers.")
        elif size > HEAD_BYTES:
            self.refuse(431, f"The head of the request is over the limit of {HEAD_BYTES:,} bytes.")

    def check_time(self, now: float) -> None:
        """Ends a connection whose client is too slow."""
        if now < self._deadline or self.flow.read_paused:
            return
        if self._part:
            self.refuse(408, f"The {self._part} of the request came too slowly.")
        elif self.cycle is None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unfinished.remove(self)
        super().connection_lost(exc)

    def refuse(self, status: int, sentence: str) -> None:
        """Answers with an error if no other answer is in progress, and ends the connection."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        identity = os.urandom(16).hex()
        log.info("connection refused: %s", sentence, extra={"status": status, "request_id": identity})
        waiting = self.cycle is not None and not self.cycle.response_complete
        if waiting and (self.cycle.response_started or self.pipeline or self._part != "body"):
            self.transport.abort()  # another answer is being written, or comes first
            return
        body = orjson.dumps({"error": sentence})
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nX-Request-Id: {identity}\r\n"
        head += "Retry-After: 1\r\n" if status == 503 else ""
        self.transport.write(STATUS_LINE[status] + head.encode("ascii") + b"Connection: close\r\n\r\n" + body)
        self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)
