"""Reads the request body up to a limit, and cancels the work for a client that disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import COMPRESSED, error_response
from server.errors import AttentiveError, PayloadTooLarge, Unavailable, UnsupportedMediaType

CANCELLED_AT_DISCONNECT = "attentive.cancelled_at_disconnect"
"""Extension of ASGI's scope: the server cancels the task of a request whose client has disconnected."""


class RequestBody:
    """Reads the whole body (413 above `limit` bytes), then runs the application.

    If the client disconnects first, the application's task is cancelled, with everything that only this task awaits. Where
    the server does not cancel it (`CANCELLED_AT_DISCONNECT`), this class does. `check` may raise before the application runs.
    """

    def __init__(self, app: ASGIApp, limit: int, check: Callable[[Scope, bytes], None] | None = None) -> None:
        self.app = app
        self.limit = limit
        self.check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            await self._handle(scope, receive, send)
        except AttentiveError as error:  # of this class; the application answers to its own
            await error_response(scope, error)(scope, receive, send)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            if not await has_disconnected(receive):  # cancelled by the server after its grace time
                raise Unavailable("The server is shutting down.") from None

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        too_large = length.isdigit() and int(length) > self.limit
        body, more = bytearray(), True
        while more and not too_large:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            too_large = len(body) > self.limit
        if too_large:  # the server reads and discards the rest, so that the client gets the answer
            raise PayloadTooLarge(f"The body is over the limit of {self.limit:,} bytes.")
        if body and (encoding := headers.get(b"content-encoding", b"identity").lower()) != b"identity":
            raise UnsupportedMediaType(COMPRESSED.format(printable(encoding)))
        whole = bytes(body)
        if self.check is not None:
            self.check(scope, whole)
        await self._run(scope, whole, receive, send)

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_whole() -> Message:
            return messages.pop() if messages else await receive()

        if CANCELLED_AT_DISCONNECT in scope.get("extensions", ()):
            await self.app(scope, receive_whole, send)
            return
        watching = asyncio.create_task(cancel_at_disconnect(receive, asyncio.current_task()))
        try:
            await self.app(scope, receive_whole, send)
        finally:
            watching.cancel()


def printable(value: bytes) -> str:
    """Returns the beginning of a header's value for an error message."""
    return "".join(character for character in value[:40].decode("latin-1") if character.isprintable())


async def cancel_at_disconnect(receive: Receive, work: asyncio.Task[None] | None) -> None:
    """Cancels a task when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        continue
    if work is not None:
        work.cancel()


async def has_disconnected(receive: Receive) -> bool:
    """Returns whether the client has disconnected."""
    message = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    return message.cancel() is False and message.result()["type"] == "http.disconnect"
