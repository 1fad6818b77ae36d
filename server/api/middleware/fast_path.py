"""Calls the endpoints of fixed paths directly, without FastAPI's router and dependency solver.

FastAPI matches the path against the routes in turn, solves the dependencies of each call and prepares several contexts.
When this middleware was added, that was a quarter of this process' processor time per request, with a small model and
64 clients (`benchmarks.load`). The middleware finds the endpoint in a dictionary. It reads the parameters with the
ParameterReader that FastAPI would call, so the pydantic model is the same, and handles the same exceptions. All other
requests go to FastAPI: paths with parameters, endpoints with other dependencies, 404, 405, redirects and /openapi.json.
The middleware is optional: without its line in `server/api/app.py`, FastAPI gives the same answers to all requests,
which tests/unit/server/api/middleware/test_fast_path.py checks.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.parameters import ParameterReader

Handler = Callable[[Request, Exception], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class DirectRoute:
    """An endpoint whose parameters are the request and, with a `reader`, the parameters that it reads."""

    route: APIRoute
    reader: ParameterReader[Any] | None


class FastPath:
    """ASGI middleware. `handle` turns exceptions of the types `handled` into responses; others are raised."""

    def __init__(
        self, app: ASGIApp, routes: Iterable[APIRoute], handled: tuple[type[Exception], ...], handle: Handler
    ) -> None:
        self.app = app
        self.routes = direct_routes(routes)
        self.handled = handled
        self.handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = None
        if scope["type"] == "http" and not scope.get("root_path"):
            found = self.routes.get((scope["method"], scope["path"]))
        if found is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = found.route
        request = Request(scope, receive, send)
        try:
            asked = () if found.reader is None else (await found.reader(request),)
            response: Response = await found.route.endpoint(request, *asked)
        except self.handled as error:
            response = await self.handle(request, error)
        await response(scope, receive, send)


def direct_routes(routes: Iterable[APIRoute]) -> dict[tuple[str, str], DirectRoute]:
    """Returns the routes that can be called directly, by method and path. The first route for a path counts."""
    found: dict[tuple[str, str], DirectRoute | None] = {}
    for route in routes:
        for method in route.methods or ():
            found.setdefault((method, route.path), direct_route(route))
    return {key: direct for key, direct in found.items() if direct is not None}


def direct_route(route: APIRoute) -> DirectRoute | None:
    """Returns a route as a DirectRoute, or None if its endpoint needs FastAPI."""
    if "{" in route.path or route.dependencies or not inspect.iscoroutinefunction(route.endpoint):
        return None
    annotations = [one.annotation for one in inspect.signature(route.endpoint, eval_str=True).parameters.values()]
    readers = [dependency.call for dependency in route.dependant.dependencies]
    if annotations[:1] != [Request] or len(annotations) != 1 + len(readers):
        return None
    match readers:
        case []:
            return DirectRoute(route, None)
        case [ParameterReader() as reader]:
            return DirectRoute(route, reader)
    return None
