"""For the operator: what changes the server while it runs."""

from __future__ import annotations

import hmac

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import json_response, services_of
from server.errors import Forbidden, InvalidRequest, SettingsError

router = APIRouter(prefix="/admin", tags=["operation"])


@router.post(
    "/reload",
    summary="Serve what is in the weights folder now",
    description="Asks for the admin key as `Authorization: Bearer KEY`. Requests under way are not disturbed.",
)
async def reload(request: Request) -> Response:
    services = services_of(request)
    expected = services.settings.admin_key
    given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
        raise Forbidden("This needs the server's admin key.")
    try:
        return json_response(await services.models.reload())
    except SettingsError as error:
        raise InvalidRequest(str(error)) from None
