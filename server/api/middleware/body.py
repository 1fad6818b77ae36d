"""Reads the request body up to a limit, and cancels the work for a client that disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from starlette.types import Receive

from server.api.errors import COMPRESSED
from server.errors import PayloadTooLarge, UnsupportedMediaType

CANCELLED_AT_DISCONNECT = "attentive.cancelled_at_disconnect"
"""Extension of ASGI's scope: the server cancels the task of a request whose client has
disconnected."""


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
    """Returns the beginning of a header's value for an error message."""
    return "".join(
        character for character in value[:40].decode("latin-1") if character.isprintable()
    )


async def cancel_at_disconnect(receive: Receive, work: asyncio.Task[None] | None) -> None:
    """Cancels a task when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        continue
    if work is not None:
        work.cancel()


async def watched(work: Awaitable[None], receive: Receive) -> None:
    """Awaits the work of the present task, and cancels this when the client has disconnected."""
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
