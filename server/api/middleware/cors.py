"""Cross-origin headers (CORS)."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from server.api.request_headers import HEADERS


class Cors(CORSMiddleware):
    """Starlette's middleware with a shortcut for requests without `Origin`, which need none of its headers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or b"origin" in scope[HEADERS]:
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)
