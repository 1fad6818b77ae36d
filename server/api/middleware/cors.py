"""Cross-origin headers, at no cost for callers that are no browsers."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import Message, Receive, Scope, Send

VARY = (b"vary", b"Origin")


class CrossOrigin(CORSMiddleware):
    """Starlette's layer, which is passed by where the request has no `Origin`: then all that is to be said is that the
    answer might differ with one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or any(name == b"origin" for name, _ in scope["headers"]):
            await super().__call__(scope, receive, send)
            return

        async def varying(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), VARY]
            await send(message)

        await self.app(scope, receive, varying)
