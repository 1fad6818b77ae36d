"""The explorer: one page of our own at / and /attention, its files under /static."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import json_response
from server.api.negotiation import preferred
from server.errors import NotFound
from server.version import server_version
from server.web.assets import PAGE_POLICY, Asset, assets

router = APIRouter(tags=["look inside"])
SAFETY = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}


@router.get("/", summary="The explorer for a browser, the server's name for everybody else")
async def root(request: Request) -> Response:
    if preferred(request.headers.get("accept", ""), ("application/json", "text/html")) == "text/html":
        return page(request)
    links = {"explorer": "/attention", "documentation": "/docs", "openapi": "/openapi.json", "languages": "/languages"}
    return json_response({"name": "Attentive", "version": server_version(), **links}, headers={"Vary": "Accept"})


@router.get("/static/{name}", include_in_schema=False)
async def static(name: str, request: Request) -> Response:
    asset = assets().get(name)
    if asset is None or name.endswith(".html"):
        raise NotFound("There is nothing at this address.")
    return sent(asset, request, {})


def page(request: Request) -> Response:
    """The explorer's HTML; what it shows it asks for by itself."""
    return sent(assets()["index.html"], request, {"Content-Security-Policy": PAGE_POLICY, "Vary": "Accept"})


def sent(asset: Asset, request: Request, headers: dict[str, str]) -> Response:
    """A file, compressed where the client takes it, or 304 where it has it."""
    headers = SAFETY | {"ETag": asset.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"} | headers
    if asset.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.compressed, 200, headers | {"Content-Encoding": "gzip"}, asset.media)
    return Response(asset.body, 200, headers, asset.media)
