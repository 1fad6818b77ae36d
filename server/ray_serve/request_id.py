"""Leaves the header X-Request-Id to Ray, which adds it to every response with the id that it also sent to the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]


def without_request_id(app: ASGIApp) -> ASGIApp:
    """Returns `app` without the header X-Request-Id in its responses, which clients would otherwise receive twice."""

    async def filtered(scope: Any, receive: Any, send: Any) -> None:
        async def send_filtered(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != b"x-request-id"]
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, send_filtered)

    return filtered
