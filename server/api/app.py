"""create_app: the application put together from routes, layers and dialects. One line per part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.compat import deepl, deepl_documents, google
from server.api.errors import ErrorWriter, Shape
from server.api.middleware.cors import CrossOrigin
from server.api.middleware.direct import Direct
from server.api.middleware.request_body import Exchange
from server.api.middleware.request_log import Observe
from server.api.middleware.tracing import Trace
from server.api.routes import admin, attention, docs, files, health, languages, translate
from server.api.routes import analysis as looking
from server.api.routes import pages as explorer
from server.config import Settings
from server.errors import AttentiveError, Overloaded
from server.observability.telemetry import Telemetry
from server.services import Services
from server.version import server_version

ROUTERS = (
    translate.router,
    languages.router,
    attention.router,
    looking.router,
    explorer.router,
    files.router,
    health.router,
    admin.router,
    docs.router,
    deepl.router,
    deepl_documents.router,
    google.router,
)
"""Every router. A dialect is one more file with a router, and an entry in SHAPES where its errors look different."""
SHAPES: tuple[Shape, ...] = (("/v2/", deepl.shape), (google.PREFIX, google.shape))
DESCRIPTION = (
    "Self-hosted translation that lets you look inside: LibreTranslate's dialect, and the attention behind it."
)


class Application(FastAPI):
    """FastAPI behind our own layers: every request enters `layers`, and the innermost of them hands on to FastAPI what it
    does not answer itself."""

    layers: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await (self.layers if scope["type"] == "http" else super().__call__)(scope, receive, send)

    async def fastapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """FastAPI itself: router, dependencies, documentation."""
        await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Without Starlette's outermost layer, which would answer for what nobody foresaw before `Observe` does."""
        stack = super().build_middleware_stack()
        return stack.app if isinstance(stack, ServerErrorMiddleware) else stack


def create_app(settings: Settings, services: Services | None = None) -> Application:
    """The ASGI application. It starts the workers with its lifespan and ends them after the last request.

    `services` is given in tests. Raises SettingsError where the weights folder holds no usable model.
    """
    services = services or Services(settings)
    writer = ErrorWriter(SHAPES)
    telemetry = Telemetry(settings.otlp_endpoint, server_version()) if settings.otlp_endpoint else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await services.start()
        try:
            yield
        finally:
            await services.stop()
            if telemetry is not None:
                await asyncio.to_thread(telemetry.close)

    async def refuse(request: Request, error: Exception) -> Response:
        if isinstance(error, Overloaded):
            services.metrics.rejected(error.reason)
        return writer.response(request.url.path, error)

    app = Application(
        title="Attentive",
        version=server_version(),
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere: see routes/docs.py
        redoc_url=None,
    )
    app.state.services = services
    handlers = (AttentiveError, HTTPException, RequestValidationError)
    for kind in handlers:
        app.add_exception_handler(kind, refuse)
    for router in ROUTERS:
        app.include_router(router)
    # From the innermost layer to the outermost.
    layers: ASGIApp = Direct(app.fastapi, [route for router in ROUTERS for route in router.routes], handlers, refuse)
    layers = Exchange(layers, settings.body_bytes, writer)
    layers = CrossOrigin(
        layers,
        allow_origins=[origin.strip() for origin in settings.cors_origins.split(",") if origin.strip()],
        allow_methods=["GET", "POST", "OPTIONS"],
        allow_headers=["*"],
        expose_headers=["X-Request-Id", "Retry-After", "Server-Timing"],
        max_age=86_400,
    )
    layers = Observe(layers, services.metrics, writer)
    app.layers = layers if telemetry is None else Trace(layers, telemetry)
    return app
