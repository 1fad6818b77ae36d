"""A response has one request id where Ray adds the request's own."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from server.api.app import create_app
from server.api.middleware.entrance import OneRequestId
from server.config import Settings
from server.services import Services
from tests.support.engine.fake_engine import FakeEngine, fake_catalog


class RaysRequestId:
    """Adds the request's id to the response, as the middleware of Ray Serve does."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ids = [value for name, value in scope["headers"] if name == b"x-request-id"] or [b"made-by-ray"]
        scope = {**scope, "headers": [*scope["headers"], (b"x-request-id", ids[0])]}

        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-request-id", ids[0])]}
            await send(message)

        await self.app(scope, receive, send_with_id)


@pytest.mark.parametrize(("given", "returned"), [(None, 1), ("mine", 1), ("a b!", 2)])
async def test_a_response_has_the_id_of_ray_and_of_the_server_only_if_they_differ(
    given: str | None, returned: int
) -> None:
    settings = Settings()
    app = RaysRequestId(OneRequestId(create_app(settings, Services(settings, FakeEngine(), fake_catalog()))))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if given is None else [(b"x-request-id", given.encode())]
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/health",
        "headers": headers,
        "query_string": b"",
        "http_version": "1.1",
    }
    await app(scope | {"raw_path": b"/health", "scheme": "http", "root_path": "", "client": None}, receive, send)
    ids = [value.decode() for name, value in sent[0]["headers"] if name == b"x-request-id"]
    assert len(ids) == returned
    assert ids[-1] == (given or "made-by-ray")
