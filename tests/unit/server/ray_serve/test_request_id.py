"""Responses of a replica have no X-Request-Id of their own; everything else is passed on."""

from __future__ import annotations

import asyncio
from typing import Any

from server.ray_serve.request_id import without_request_id


def test_the_header_is_removed_and_the_rest_passed_on() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (scope, await receive()) == ({"type": "http"}, {"type": "http.request"})
        headers = [(b"X-Request-Id", b"1"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x"})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(without_request_id(app)({"type": "http"}, receive, send))
    assert sent == [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]},
        {"type": "http.response.body", "body": b"x"},
    ]
