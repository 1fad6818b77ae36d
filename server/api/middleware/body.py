"""Reads the request body up to a limit, and cancels the work for a client that disconnects."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import error_response
from server.errors import PayloadTooLarge, Unavailable

LINGER_SECONDS = 2.0
"""Time for which the rest of a refused body is read and discarded. A connection that is closed at once would be reset, and
the client would not receive the answer."""


class RequestBody:
    """Reads the whole body (413 above `limit` bytes), then runs the application and waits for a disconnect.

    If the client disconnects first, the application's task is cancelled, with everything that only this task awaits.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        too_large = length.isdigit() and int(length) > self.limit
        body, more = bytearray(), True
        while more and not too_large:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            too_large = len(body) > self.limit
        if too_large:
            await self._refuse(scope["path"], more, receive, send)
        else:
            await self._run(scope, bytes(body), receive, send)

    async def _refuse(self, path: str, more: bool, receive: Receive, send: Send) -> None:
        """Answers with 413, discards the rest of the body if there is `more`, and closes the connection."""
        error = PayloadTooLarge(f"The body is over the limit of {self.limit:,} bytes.")
        response = error_response(path, error)
        response.headers["Connection"] = "close"
        await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while more:
                    more = (await receive()).get("more_body", False)
        await send({"type": "http.response.body"})

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        work = asyncio.current_task()
        assert work is not None  # noqa: S101  a request is handled in a task
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        disconnected = asyncio.Event()

        async def receive_whole() -> Message:
            if messages:
                return messages.pop()
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                continue
            disconnected.set()
            work.cancel()

        watching = asyncio.create_task(watch())
        try:
            await self.app(scope, receive_whole, send)
        except asyncio.CancelledError:
            if not disconnected.is_set():  # cancelled by the server after its grace time
                work.uncancel()
                raise Unavailable("The server is shutting down.") from None
        finally:
            watching.cancel()
            if disconnected.is_set():
                work.uncancel()
