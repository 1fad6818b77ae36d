"""create_app: the FastAPI application of routes, middleware and error responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from server import server_version
from server.api.compat import (
    deepl,
    deepl_documents,
    deepl_glossaries,
    extensions,
    google,
)
from server.api.early_refusal import EarlyRefusal
from server.api.errors import error_response
from server.api.middleware.entrance import AccessLog, Entrance
from server.api.openapi import document
from server.api.parameters import direct_routes
from server.api.routes import (
    align,
    analysis,
    attention,
    files,
    languages,
    live,
    operation,
    pages,
    translate,
)
from server.config import Settings, comma_separated
from server.errors import Overloaded, SettingsError
from server.services import Services

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]
ROUTERS = (
    translate.router,
    languages.router,
    attention.router,
    attention.tensors_router,
    analysis.router,
    align.router,
    live.router,
    pages.router,
    files.router,
    operation.router,
    deepl.router,
    deepl_documents.router,
    deepl_glossaries.router,
    deepl.languages_router,
    google.router,
    extensions.router,
    google.page_router,
)
DESCRIPTION = (
    "Self-hosted translation with a view of the model's attention. The interface is "
    "LibreTranslate's with further "
    "parameters; clients of DeepL and of Google Translate v2 work under `/v2` and "
    "`/language/translate/v2`, whose answers "
    "DeepL and Google describe."
)


def create_app(settings: Settings, services: Services | None = None) -> FastAPI:
    """Returns the ASGI application, whose lifespan starts and stops the workers. Tests pass
    `services`. Raises SettingsError if the weights folder holds no usable model."""
    services = services or Services(settings)
    access_log = AccessLog(services.metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await services.start()
        try:
            yield
        finally:
            access_log.flush()
            await services.stop()

    def respond(scope: Scope, error: Exception) -> Response:
        if isinstance(error, Overloaded):
            services.metrics.rejected.add(error.reason)
        elif isinstance(error, HTTPException) and error.status_code == 405:
            error.headers = {"Allow": allowed_methods(app.router.routes, scope)}
            if scope["method"] == "OPTIONS":
                return Response(status_code=204, headers=error.headers)
        return error_response(scope, error)

    app = new_app(lifespan)
    app.services = services
    app.add_middleware(
        Entrance,
        access_log=access_log,
        direct=direct_routes(app.router.routes),
        refusal=EarlyRefusal(services, app.router.routes),
        respond=respond,
        limit=settings.body_bytes,
        cross_origin={
            "allow_origins": comma_separated(settings.cors_origins),
            "allow_methods": ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
            "allow_headers": ["*"],
            "expose_headers": ["X-Request-Id", "Retry-After", "Server-Timing", "X-Warning"],
            "max_age": 86_400,
        },
        root_path=settings.root_path,
    )
    if settings.otlp_endpoint:
        app.user_middleware.insert(0, tracing(settings.otlp_endpoint))
    return app


def allowed_methods(routes: Sequence[BaseRoute], scope: Scope) -> str:
    """Returns the header `Allow` of a path: the methods of its routes, or of files."""
    own = [
        route
        for route in routes
        if isinstance(route, Route) and route.matches(scope)[0] != Match.NONE
    ]
    methods = {"OPTIONS"}.union(*(route.methods or () for route in own), () if own else {"GET"})
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def tracing(endpoint: str) -> Middleware:
    """Returns the middleware of traces. Raises SettingsError for an endpoint that is no HTTP address,
    and without the extra `otel`."""
    setting = "--otlp-endpoint (ATTENTIVE_OTLP_ENDPOINT)"
    if not endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"{setting} must begin with http:// or https://.")
    try:
        from server.api.middleware.tracing import Tracing
    except ImportError:
        raise SettingsError(
            f"{setting} needs the extra otel: pip install 'attentive-server[otel]'."
        ) from None
    return Middleware(Tracing, endpoint=endpoint, version=server_version())


class Application(FastAPI):
    """FastAPI without its layers around the router, which Entrance replaces, except the one that
    closes files."""

    services: Services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        await self.middleware_stack(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        app: ASGIApp = AsyncExitStackMiddleware(self.router)
        for layer in reversed(self.user_middleware):
            app = layer.cls(app, *layer.args, **layer.kwargs)
        return app


def new_app(lifespan: Lifespan | None = None) -> Application:
    """Returns an application with all routes, but without services and middleware."""
    app = Application(
        title="Attentive",
        version=server_version(),
        description=DESCRIPTION,
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # see middleware/tracing.py
        docs_url=None,  # FastAPI's own pages load scripts from other servers; see routes/pages.py
        redoc_url=None,
    )
    for router in ROUTERS:
        # include_router would compare each request with all of them twice
        app.router.routes.extend(router.routes)
    app.router.routes.append(pages.STATIC)
    app.openapi = cache(partial(document, app))  # type: ignore[method-assign]
    return app
