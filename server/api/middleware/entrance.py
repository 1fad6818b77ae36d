"""Entrance, the one layer between the server and the routes: request ids, body, early refusals,
headers, a response to every exception, log and metrics."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import Context
from typing import Any

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import BODY, COMPRESSED, EXCHANGE, LOG_FIELDS, path_of
from server.errors import Overloaded, PayloadTooLarge, Unavailable, UnsupportedMediaType
from server.kept import forget_soon
from server.observability.logging import request_id, trace_id
from server.observability.metrics import Metrics

log = logging.getLogger("server.access")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Routes that are requested every few seconds."""
REFUSED = 429
SECONDS = 1.0
"""Time in which refusals of one kind are one log line."""
Kind = tuple[tuple[str, object], ...]
"""Route, key, reason and detail of a refusal, by name."""


RECORDS = {
    level: vars(logging.LogRecord(log.name, level, __file__, 0, "request", (), None))
    for level in (logging.DEBUG, logging.INFO)
}
"""The common fields of all records of a level, which take half of the time of a line."""


def record(level: int, fields: Mapping[str, object]) -> logging.LogRecord:
    now = time.time()
    made = logging.LogRecord.__new__(logging.LogRecord)
    vars(made).update(RECORDS[level], created=now, msecs=now % 1 * 1_000, **fields)
    return made


class AccessLog:
    """Counts ended requests in the metrics, and logs them. Belongs to one event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._refused: Counter[Kind] = Counter()
        """Refusals of the present second by kind, without the first of each."""

    def add(
        self, route: str, method: str, status: int, seconds: float, fields: Mapping[str, object]
    ) -> None:
        """Adds a request that took `seconds`, with further `fields` of its line."""
        method = method if method in METHODS else "other"
        self._metrics.http(route, method, status, seconds)
        if status == REFUSED and self._is_counted(("route", route), *fields.items()):
            return
        level = logging.DEBUG if route in QUIET and status < 400 else logging.INFO
        if log.isEnabledFor(level):
            line = {
                "route": route,
                "method": method,
                "status": status,
                "seconds": round(seconds, 6),
                "request_id": request_id.get(),
                **fields,
            }
            log.handle(record(level, line))

    def _is_counted(self, *kind: tuple[str, object]) -> bool:
        if kind in self._refused:
            self._refused[kind] += 1
            return True
        if not self._refused:
            # of no request
            asyncio.get_running_loop().call_later(SECONDS, self.flush, context=Context())
        self._refused[kind] = 0
        return False

    def flush(self) -> None:
        """Logs the numbers of refusals."""
        refused, self._refused = self._refused, Counter()
        for kind, number in refused.items():
            if number:
                log.info(
                    "requests refused", extra={**dict(kind), "status": REFUSED, "requests": number}
                )


ID = re.compile(r"[A-Za-z0-9._:\-]{1,64}")
TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-")
"""The header `traceparent` of W3C Trace Context."""
CLIENT_CLOSED = 499
"""Status in log and metrics of a request whose client disconnected, as in nginx."""
FIXED_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
NO_FRAME = (b"x-frame-options", b"DENY")
"""Header of all responses except those whose policy names ancestors."""
CONTENT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
"""Header of responses that are not HTML and have no policy of their own."""
ORIGIN = b"origin"
CANCELLED_AT_DISCONNECT = "attentive.cancelled_at_disconnect"
"""Extension of ASGI's scope: the server cancels the task of a request whose client disconnects."""
Refusal = Callable[[Scope, bytes], Overloaded | None]
Respond = Callable[[Scope, Exception], Response]


class Exchange:
    """A request and its response: adds headers, and logs the end."""

    __slots__ = (
        "_began",
        "_closed",
        "_identity",
        "_log",
        "_method",
        "_scope",
        "_send",
        "fields",
        "headers",
        "is_forgotten",
        "status",
    )

    def __init__(self, scope: Scope, method: str, send: Send, access_log: AccessLog) -> None:
        self._began, self._closed = time.perf_counter(), False
        self._scope, self._method, self._send, self._log = scope, method, send, access_log
        self.headers = dict[bytes, bytes](scope["headers"][::-1])
        """The first header of each name."""
        self.fields = dict[str, object]()
        """Further fields of the log line."""
        self.status = CLIENT_CLOSED
        self.is_forgotten = False
        """Whether the caller asked for no storage."""
        self._identity = request_identity(self.headers)
        request_id.set(self._identity)
        if trace := TRACE.match(self.headers.get(b"traceparent", b"").decode("latin-1")):
            trace_id.set(trace_id.get() or trace[1])

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._with_fixed(message["headers"])
        elif not message.get("more_body", False):
            # before the last message, so that a client with the whole response finds it counted
            self.close()
        await self._send(message)

    def _with_fixed(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Returns the headers of a response with the request's id and the fixed headers."""
        identity = self._identity.encode()
        result = [(b"x-request-id", identity), *FIXED_HEADERS, *headers]
        named = dict(result)  # ASGI's names are in small letters
        policy = named.get(CONTENT_POLICY[0])
        if policy is None and not named.get(b"content-type", b"").startswith(b"text/html"):
            result.append(CONTENT_POLICY)
        if policy is None or b"frame-ancestors http" not in policy:
            result.append(NO_FRAME)
        if ORIGIN not in self.headers:  # else CORSMiddleware has done it
            vary = b"Origin"  # a cache keeps responses with and without an origin apart
            if b"vary" in named:
                vary = b", ".join([*[value for name, value in result if name == b"vary"], vary])
                result = [header for header in result if header[0] != b"vary"]
            result.append((b"vary", vary))
        if path_of(self._scope).startswith("/v2/"):  # DeepL's clients read this name
            result.append((b"x-trace-id", identity))
        return result

    def close(self) -> None:
        """Counts and logs the request, once."""
        if not self._closed:
            self._closed = True
            route = getattr(self._scope.get("route"), "path", "unmatched")
            seconds = time.perf_counter() - self._began
            self._log.add(route, self._method, self.status, seconds, self.fields)
            if self.is_forgotten:
                forget_soon()


class Entrance:
    """Gives each request an id (the header `X-Request-Id` if it matches `ID`), reads its body (413
    above `limit` bytes), and runs the application unless `refusal` returns an error. `respond`
    returns the response to an exception.

    `direct` are routes by method and path that need none of the application's layers.
    `cross_origin` are the arguments of CORSMiddleware. `root_path` is the prefix of all addresses,
    which a proxy may remove. If the client disconnects, the task of the request is cancelled: by
    the server (`CANCELLED_AT_DISCONNECT`), else here.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access_log: AccessLog,
        direct: Mapping[tuple[str, str], Route],
        refusal: Refusal,
        respond: Respond,
        limit: int,
        cross_origin: Mapping[str, Any],
        root_path: str = "",
    ) -> None:
        self._app, self._direct = app, direct
        self._access_log, self._limit = access_log, limit
        self._refusal, self._respond = refusal, respond
        self._cross_origin = CORSMiddleware(self._answer, **cross_origin)
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._root_path:
            scope.update(root_path=self._root_path, path=with_prefix(scope, self._root_path))
        # The server leaves out the body of the response to HEAD, by its own scope.
        handled = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        exchange = Exchange(handled, scope["method"], send, self._access_log)
        handled[EXCHANGE], handled[LOG_FIELDS] = exchange, exchange.fields
        try:
            answer = self._cross_origin if ORIGIN in exchange.headers else self._answer
            await answer(handled, receive, exchange.send)
        finally:
            # it refers to the scope: what refers to itself stays in memory for minutes
            del handled[EXCHANGE]
            exchange.close()
            scope["route"] = handled.get("route")  # for outer middleware

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        error: Exception | None = None
        try:
            body = await read_body(exchange.headers, receive, self._limit)
            if body is None:
                return
            error = self._refusal(scope, body)
            if error is None:
                app = self._app
                messages: list[Message] = [
                    {"type": "http.request", "body": body, "more_body": False}
                ]

                async def receive_whole() -> Message:
                    return messages.pop() if messages else await receive()

                if (route := self._direct.get((scope["method"], path_of(scope)))) is not None:
                    scope["route"], scope[BODY], app = route, body, route.app
                if CANCELLED_AT_DISCONNECT in scope.get("extensions", ()):
                    await app(scope, receive_whole, send)
                else:
                    await watched(app(scope, receive_whole, send), receive)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            if await has_disconnected(receive):
                return
            error = Unavailable("The server is shutting down.")  # it cancels after its grace time
        except Exception as raised:  # noqa: BLE001  every one has a response
            error = raised
        if error is not None:
            response = self._respond(scope, error)
            if exchange.status != CLIENT_CLOSED:  # the response has begun and can only be aborted
                raise error
            error = None  # whose traceback refers to this frame
            await response(scope, receive, send)


def with_prefix(scope: Scope, prefix: str) -> str:
    """Returns the path with the prefix, as ASGI demands, also where the proxy has removed it. From the
    path of a POST that equals the prefix it was removed, because /translate may be a prefix too."""
    path: str = scope["path"]
    kept = path.startswith(prefix + "/") or (path == prefix and scope["method"] != "POST")
    return path if kept else prefix + path


def request_identity(headers: Mapping[bytes, bytes]) -> str:
    """Returns the caller's id of a request, or a random one."""
    identity = headers.get(b"x-request-id", b"").decode("latin-1")
    return identity if ID.fullmatch(identity) else os.urandom(16).hex()


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes | None:
    """Returns the whole body, or None where the client has disconnected. Raises PayloadTooLarge
    above `limit` bytes, and UnsupportedMediaType for a compressed body."""
    length = headers.get(b"content-length", b"")
    too_large = length.isdigit() and int(length) > limit
    pieces, size, more = list[bytes](), 0, True
    while more and not too_large:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        more = message.get("more_body", False)
        too_large = size > limit
    if too_large:  # the server reads and discards the rest, so that the client gets the answer
        raise PayloadTooLarge(f"The body is over the limit of {limit:,} bytes.")
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if body and (encoding := headers.get(b"content-encoding", b"identity").lower()) != b"identity":
        raise UnsupportedMediaType(COMPRESSED.format(printable(encoding)))
    return body


def printable(value: bytes) -> str:
    return "".join(
        character for character in value[:40].decode("latin-1") if character.isprintable()
    )


async def cancel_at_disconnect(receive: Receive, work: asyncio.Task[None] | None) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    if work is not None:
        work.cancel()


async def watched(work: Awaitable[None], receive: Receive) -> None:
    """Awaits the work of the present task, and cancels the task if the client disconnects."""
    watching = asyncio.create_task(cancel_at_disconnect(receive, asyncio.current_task()))
    try:
        await work
    finally:
        watching.cancel()


async def has_disconnected(receive: Receive) -> bool:
    """Returns whether the client has disconnected."""
    message = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    return message.cancel() is False and message.result()["type"] == "http.disconnect"


HEADER = b"x-request-id"


class OneRequestId:
    """Removes the request's id from the response where Ray has given the request the same one and
    adds it itself. An id that does not match `ID` is replaced, and both are in the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = [value for name, value in scope.get("headers", ()) if name == HEADER]

        async def send_without(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name, value)
                    for name, value in message["headers"]
                    if name != HEADER or value not in own
                ]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_without)
