"""The body comes in whole and bounded, and a client that goes away takes its work with it."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import ErrorWriter
from server.errors import InvalidRequest, PayloadTooLarge, Unavailable

BODY = "attentive.body"
"""Where the application finds the body, which is there as a whole, without asking for it piece by piece."""


class ClientGone(Exception):
    """The client closed the connection before its body had come."""


class Exchange:
    """Reads the whole body (at most `limit` bytes, else 413), then runs the application while listening for the client.

    When the client disconnects first, the application's task is cancelled, and with it everything that only it awaits.
    """

    def __init__(self, app: ASGIApp, limit: int, writer: ErrorWriter) -> None:
        self.app = app
        self.limit = limit
        self.writer = writer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await self._read(scope, receive)
        except ClientGone:
            return
        except (PayloadTooLarge, InvalidRequest) as error:
            # The rest of the body is not read: the connection cannot serve another request.
            response = self.writer.response(scope["path"], error)
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        await self._run(scope, body, receive, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self.limit:
                raise PayloadTooLarge(f"The body is over the limit of {self.limit:,} bytes.")
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self.limit:
                raise PayloadTooLarge(f"The body is over the limit of {self.limit:,} bytes.")
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        scope[BODY] = body
        client = _Client(body, asyncio.current_task())
        watch = asyncio.ensure_future(client.watch(receive))
        try:
            await self.app(scope, client.receive, send)
        except asyncio.CancelledError:
            if not client.gone:  # it is the server that is ending, and its grace time has passed
                client.work.uncancel()
                raise Unavailable("The server is shutting down.") from None
        finally:
            watch.cancel()
            if client.gone:
                client.work.uncancel()


class _Client:
    """What the application hears of its client: the body at once, then only that it has gone. `work` is the task that is
    cancelled then."""

    def __init__(self, body: bytes, work: asyncio.Task[None] | None) -> None:
        if work is None:
            raise RuntimeError("A request is handled in a task.")
        self.work = work
        self.gone = False
        self._body: bytes | None = body
        self._leaving: asyncio.Event | None = None

    async def receive(self) -> Message:
        """What the application calls."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.gone:
            self._leaving = self._leaving or asyncio.Event()
            await self._leaving.wait()
        return {"type": "http.disconnect"}

    async def watch(self, receive: Receive) -> None:
        """Waits until the client goes away and cancels the work."""
        while (await receive())["type"] != "http.disconnect":
            continue
        self.gone = True
        if self._leaving is not None:
            self._leaving.set()
        self.work.cancel()
