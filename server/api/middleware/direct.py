"""Routes that take the bare request are called straight away: the router's search, FastAPI's dependencies and its
conversion of answers cost several times what such a route does itself."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

Endpoint = Callable[[Request], Awaitable[Response]]
Refusal = Callable[[Request, Exception], Awaitable[Response]]


class Direct:
    """Answers what the bare routes are for; everything else goes on to `app`.

    `handlers` are the kinds of exceptions that `refuse` turns into a response, as FastAPI's exception handlers do; others
    are raised.
    """

    def __init__(
        self, app: ASGIApp, routes: Iterable[BaseRoute], handlers: tuple[type[Exception], ...], refuse: Refusal
    ) -> None:
        self.app = app
        self.handlers = handlers
        self.refuse = refuse
        self.routes = bare(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = None
        if scope["type"] == "http" and not scope.get("root_path"):
            found = self.routes.get((scope["method"], scope["path"]))
        if found is None:
            await self.app(scope, receive, send)
            return
        route, endpoint = found
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            response = await endpoint(request)
        except self.handlers as error:
            response = await self.refuse(request, error)
        await response(scope, receive, send)


def bare(routes: Iterable[BaseRoute]) -> dict[tuple[str, str], tuple[APIRoute, Endpoint]]:
    """By method and path, routes with a fixed path and no dependency whose endpoint is a coroutine function of the
    request alone. The first route for a path has it, as in a router."""
    found: dict[tuple[str, str], tuple[APIRoute, Endpoint] | None] = {}
    for route in routes:
        if not isinstance(route, APIRoute):
            continue
        for method in route.methods or ():
            usable = "{" not in route.path and not route.dependencies and takes_request_alone(route.endpoint)
            found.setdefault((method, route.path), (route, route.endpoint) if usable else None)
    return {key: entry for key, entry in found.items() if entry is not None}


def takes_request_alone(endpoint: Callable[..., object]) -> bool:
    parameters = inspect.signature(endpoint, eval_str=True).parameters.values()
    return inspect.iscoroutinefunction(endpoint) and [one.annotation for one in parameters] == [Request]
