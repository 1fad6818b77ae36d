"""GET / and the static files of the pages and of the API documentation."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from server import server_version
from server.api.dependencies import json_response, reader_languages, services_of
from server.api.openapi import content
from server.api.parameters import prefers_html
from server.web.page import FOLDER, NO_FRAME, PAGE_POLICY, interface_texts, page

router = APIRouter(tags=["operation"])
SWAGGER = ("fastapi_offline", "static")
"""Package with the files of Swagger UI, and their folder; its code is not used."""


@router.get(
    "/",
    summary="The translator for a browser, the server's name and version for other clients",
    response_model=dict[str, str],
    responses={200: content("text/html")},
)
async def root(request: Request) -> Response:
    if prefers_html(request):
        return html_page(request, "translator/index.html")
    links = {
        "explorer": "/attention",
        "documentation": "/docs",
        "openapi": "/openapi.json",
        "languages": "/languages",
    }
    links = {name: request.scope["root_path"] + path for name, path in links.items()}
    return json_response(
        {"name": "Attentive", "version": server_version(), **links}, headers={"Vary": "Accept"}
    )


@router.get("/spec", include_in_schema=False)
async def spec(request: Request) -> Response:
    """LibreTranslate's address of the OpenAPI document."""
    return json_response(request.app.openapi())


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """Swagger UI, which shows /openapi.json and sends requests."""
    headers = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}
    return FileResponse(FOLDER / "docs.html", headers=headers)


class PageFiles(StaticFiles):
    """Scripts and styles of the pages, and Swagger UI. Browsers revalidate them each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        scope["route"] = STATIC  # the name in logs and metrics
        if path.endswith(".html"):  # only served as pages
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


STATIC = Mount(
    "/static", GZipMiddleware(PageFiles(directory=FOLDER, packages=[SWAGGER]), compresslevel=6)
)


def html_page(request: Request, name: str, *, embedded: bool = False) -> Response:
    """Returns a page in the first language of the reader that it has, else in English, with gzip
    where accepted, or 304 if the client has it. An `embedded` page shows one view, and pages of
    `frame_ancestors` may frame it."""
    codes = (code.partition("-")[0].lower() for code in reader_languages(request))
    html = page(name, next((code for code in codes if code in interface_texts()), "en"), embedded)
    headers = {
        "Vary": "Accept, Accept-Encoding, Accept-Language",
        "ETag": html.tag,
        "Cache-Control": "no-cache",
    }
    ancestors = frame_ancestors(request) if embedded else NO_FRAME
    headers |= {"Content-Security-Policy": html.policy.replace(NO_FRAME, ancestors)}
    if html.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return HTMLResponse(html.compressed, 200, headers | {"Content-Encoding": "gzip"})
    return HTMLResponse(html.html, 200, headers)


def frame_ancestors(request: Request) -> str:
    """Returns the directive for pages that may frame this one: none if it could act with a key."""
    services = services_of(request)
    has_key = "authorization" in request.headers or "api_key" in request.query_params
    origins = services.settings.frame_origins
    if not origins or has_key or services.authenticator.key_required:
        return NO_FRAME
    return f"frame-ancestors {' '.join(origins)}"
