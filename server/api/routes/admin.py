"""POST /admin/reload: changes the models of a running server."""

from __future__ import annotations

import hmac

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import json_response, services_of
from server.api.openapi import errors
from server.api.schemas.operation import ReloadAnswer
from server.errors import Forbidden, InvalidRequest, SettingsError

router = APIRouter(prefix="/admin", tags=["operation"])
NO_ADMIN_KEY = (
    "This server has no admin key: start it with --admin-key (ATTENTIVE_ADMIN_KEY), or send SIGHUP to reload."
)
WRONG_ADMIN_KEY = "Send the key of --admin-key (ATTENTIVE_ADMIN_KEY) in the header 'Authorization: Bearer KEY'."


@router.post(
    "/reload",
    summary="Load the models that are in the weights folder now",
    response_model=ReloadAnswer,
    responses=errors(400, 403),
)
async def reload(request: Request) -> Response:
    """Requires the admin key as `Authorization: Bearer KEY`. Requests in progress are not interrupted."""
    services = services_of(request)
    expected = services.settings.admin_key
    if not expected:
        raise Forbidden(NO_ADMIN_KEY)
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), expected.encode()):
        raise Forbidden(WRONG_ADMIN_KEY)
    try:
        return json_response(await services.models.reload())
    except SettingsError as error:
        raise InvalidRequest(str(error)) from None
