"""One request id in a response, where a proxy adds the request's own."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"


class OneRequestId:
    """Leaves the request's id to Ray, which gives each request one and adds it to the response. Where the server has another
    one, because it writes only ids that it can log (`server.api.middleware.entrance.ID`), both are in the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope.get("headers", ()) if name == HEADER]

        async def send_without(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name, value) for name, value in message["headers"] if name != HEADER or value not in given]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_without)
