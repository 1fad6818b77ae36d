"""Cross-origin headers (CORS)."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import Message, Receive, Scope, Send

from server.api.request_headers import headers_of

VARY = (b"vary", b"Origin")


class Cors(CORSMiddleware):
    """Starlette's middleware with a shortcut: a request without `Origin` only gets the header `Vary: Origin`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or b"origin" in headers_of(scope):
            await super().__call__(scope, receive, send)
            return

        async def send_with_vary(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), VARY]
            await send(message)

        await self.app(scope, receive, send_with_vary)
