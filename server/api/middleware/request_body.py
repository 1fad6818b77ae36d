"""Reads the request body up to a limit, and cancels the work for a client that disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import ErrorResponses
from server.api.request_headers import HEADERS
from server.errors import InvalidRequest, PayloadTooLarge, Unavailable

BODY = "attentive.body"
"""Key of the ASGI scope that holds the whole body."""
WATCHERS = "attentive.watchers"
"""Key of the ASGI scope under which `server.api.http_protocol` keeps the functions to call if the client disconnects."""


class ClientDisconnected(Exception):
    """The client closed the connection before the end of its body."""


class RequestBody:
    """Reads the whole body (413 above `limit` bytes), then runs the application and waits for a disconnect.

    If the client disconnects first, the application's task is cancelled, with everything that only this task awaits.
    """

    def __init__(self, app: ASGIApp, limit: int, responses: ErrorResponses) -> None:
        self.app = app
        self.limit = limit
        self.responses = responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await self._read(scope, receive)
        except ClientDisconnected:
            return
        except (PayloadTooLarge, InvalidRequest) as error:
            # The rest of the body is not read, so the connection cannot serve another request.
            response = self.responses.response(scope["path"], error)
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        await self._run(scope, body, receive, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        length = scope[HEADERS].get(b"content-length", b"")
        if length.isdigit() and int(length) > self.limit:
            raise PayloadTooLarge(f"The body is over the limit of {self.limit:,} bytes.")
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            body += message.get("body", b"")
            if len(body) > self.limit:
                raise PayloadTooLarge(f"The body is over the limit of {self.limit:,} bytes.")
            if not message.get("more_body", False):
                return bytes(body)

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        scope[BODY] = body
        connection = _Connection(body, asyncio.current_task())
        watchers: list[Callable[[], None]] | None = scope.get(WATCHERS)
        watch: asyncio.Future[None] | None = None
        if watchers is None:  # another HTTP server
            watch = asyncio.ensure_future(connection.watch(receive))
        else:
            watchers.append(connection.disconnect)
        try:
            await self.app(scope, connection.receive, send)
        except asyncio.CancelledError:
            if not connection.disconnected:  # cancelled by the server after its grace time
                connection.work.uncancel()
                raise Unavailable("The server is shutting down.") from None
        finally:
            if watch is not None:
                watch.cancel()
            elif watchers is not None:
                watchers.remove(connection.disconnect)
            if connection.disconnected:
                connection.work.uncancel()


class _Connection:
    """Receive channel of the application: the body, then a disconnect. A disconnect cancels the task `work`."""

    __slots__ = ("_body", "_event", "disconnected", "work")

    def __init__(self, body: bytes, work: asyncio.Task[None] | None) -> None:
        if work is None:
            raise RuntimeError("A request is handled in a task.")
        self.work = work
        self.disconnected = False
        self._body: bytes | None = body
        self._event: asyncio.Event | None = None

    async def receive(self) -> Message:
        """Returns the body first, then waits for the disconnect."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.disconnected:
            self._event = self._event or asyncio.Event()
            await self._event.wait()
        return {"type": "http.disconnect"}

    async def watch(self, receive: Receive) -> None:
        """Waits for the disconnect and cancels the work."""
        while (await receive())["type"] != "http.disconnect":
            continue
        self.disconnect()

    def disconnect(self) -> None:
        """Cancels the work: the client has disconnected."""
        self.disconnected = True
        if self._event is not None:
            self._event.set()
        self.work.cancel()
