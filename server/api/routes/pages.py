"""GET / and the static files of the translator, the explorer and of the API documentation."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import json_response, reader_languages
from server.api.openapi import content
from server.api.parameters import prefers_html
from server.api.schemas.operation import ServerAnswer
from server.errors import NotFound
from server.version import server_version
from server.web.assets import DOCS_POLICY, Asset, assets, swagger_assets
from server.web.page import interface_texts, page

router = APIRouter(tags=["operation"])
HTML_EXAMPLE = '<!doctype html>\n<html lang="en">...</html>\n'


@router.get(
    "/",
    summary="The translator for a browser, the server's name and version for other clients",
    response_model=ServerAnswer,
    responses={200: content({"text/html": HTML_EXAMPLE})},
)
async def root(request: Request) -> Response:
    if prefers_html(request):
        return translator_page(request)
    links = {"explorer": "/attention", "documentation": "/docs", "openapi": "/openapi.json", "languages": "/languages"}
    return json_response({"name": "Attentive", "version": server_version(), **links}, headers={"Vary": "Accept"})


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """Swagger UI, which shows /openapi.json and sends requests."""
    return sent(assets()["docs.html"], request, {"Content-Security-Policy": DOCS_POLICY})


@router.get("/static/{name:path}", include_in_schema=False)
async def static(name: str, request: Request) -> Response:
    asset = assets().get(name) or swagger_assets().get(name)
    if asset is None or name.endswith(".html"):
        raise NotFound("There is nothing at this address.")
    return sent(asset, request, {})


def translator_page(request: Request) -> Response:
    """Returns the translator's HTML in the first language of the reader that the interface has, or in English."""
    codes = (code.partition("-")[0].lower() for code in reader_languages(request))
    language = next((code for code in codes if code in interface_texts()), "en")
    return html_page(request, "translator/index.html", language)


def explorer_page(request: Request) -> Response:
    """Returns the explorer's HTML. Its scripts request the data that it shows."""
    return html_page(request, "explorer/index.html")


def html_page(request: Request, name: str, language: str = "en") -> Response:
    """Returns the HTML of a page whose address has another answer for other clients."""
    html = page(name, language)
    headers = {"Content-Security-Policy": html.policy, "Vary": "Accept, Accept-Encoding, Accept-Language"}
    return sent(html.asset, request, headers)


def sent(asset: Asset, request: Request, headers: dict[str, str]) -> Response:
    """Returns a file, compressed if the client accepts gzip, or 304 if the client has it."""
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"} | headers
    if asset.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.compressed, 200, headers | {"Content-Encoding": "gzip"}, asset.media)
    return Response(asset.body, 200, headers, asset.media)
