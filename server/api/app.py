"""create_app: the application put together from routes, layers and dialects. One line per part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from server.api.dialects import deepl, deepl_documents, google
from server.api.errors import ErrorWriter, Shape
from server.api.middleware.exchange import Exchange
from server.api.middleware.observe import Observe
from server.api.middleware.trace import Trace
from server.api.routes import admin, attention, docs, explorer, files, health, languages, looking, translate
from server.config import Settings
from server.errors import AttentiveError, Overloaded
from server.services import Services
from server.telemetry import Telemetry
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


def create_app(settings: Settings, services: Services | None = None) -> FastAPI:
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

    app = FastAPI(
        title="Attentive",
        version=server_version(),
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere: see routes/docs.py
        redoc_url=None,
    )
    app.state.services = services
    for kind in (AttentiveError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, refuse)
    for router in ROUTERS:
        app.include_router(router)
    # The last one added is the outermost.
    app.add_middleware(Exchange, limit=settings.body_bytes, writer=writer)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=[origin.strip() for origin in settings.cors_origins.split(",") if origin.strip()],
        allow_methods=["GET", "POST", "OPTIONS"],
        allow_headers=["*"],
        expose_headers=["X-Request-Id", "Retry-After", "Server-Timing"],
        max_age=86_400,
    )
    app.add_middleware(Observe, metrics=services.metrics, writer=writer)
    if telemetry is not None:
        app.add_middleware(Trace, telemetry=telemetry)
    return app
