"""The prefix of the server's addresses behind a proxy."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class RootPath:
    """Sets `root_path`, and puts the prefix back where the proxy has removed it, because `path` contains `root_path` in ASGI.
    In a POST the prefix alone is a path after it, so that the prefix may be that of an address, such as /translate."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app = app
        self.prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            kept = path == self.prefix and scope["method"] != "POST"
            scope["root_path"] = self.prefix
            scope["path"] = path if kept or path.startswith(self.prefix + "/") else self.prefix + path
        await self.app(scope, receive, send)
