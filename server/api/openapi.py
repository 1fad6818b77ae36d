"""The OpenAPI document: FastAPI's, without its validation errors, and with forms as bodies."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from server.api.parameters import FORM, MULTIPART
from server.api.schemas.base import ErrorAnswer

RETRY_AFTER = {"description": "Seconds to wait.", "schema": {"type": "integer"}, "example": 1}
ERRORS = {
    400: "A missing or invalid parameter, an unsupported language, or a text over a limit.",
    403: "The key is missing or not valid.",
    404: "Not found.",
    410: "The id has expired.",
    413: "The body is too large, or the text is too long for the beam width.",
    415: "The body is neither JSON nor a form, or it is compressed.",
    429: "The server is busy, or there were too many requests.",
    503: "The server is starting or stopping, or no worker runs.",
    504: "The time limit of the request has passed.",
}
"""Description of each error status."""
WORK = (400, 403, 413, 415, 429, 503, 504)
"""Errors of the routes that use a worker."""
ANYWHERE = (
    "Parameters may be sent as JSON, as a form or in the query string; the body takes precedence."
)
FOREIGN = frozenset({"DeepL", "Google v2", "Extensions"})
"""Tags of interfaces whose authors document the answers."""
SECURITY = {
    "type": "http",
    "scheme": "bearer",
    "description": "API key, or the admin key for `/admin/reload`.",
}
Json = dict[str, Any]
Responses = dict[int | str, Json]


def errors(*statuses: int) -> Responses:
    """Returns `responses` of a route for these error statuses."""
    responses: Responses = {
        status: {"model": ErrorAnswer, "description": ERRORS[status]} for status in statuses
    }
    for status in {429, 503}.intersection(statuses):
        responses[status]["headers"] = {"Retry-After": RETRY_AFTER}
    return responses


def content(*media_types: str) -> Json:
    """Returns a response that may also have these media types."""
    return {"content": {media: {"schema": {"type": "string"}} for media in media_types}}


def document(app: FastAPI) -> Json:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["securitySchemes"] = {"key": SECURITY}
    document["security"] = [{}, {"key": []}]
    for operation in (
        operation for methods in document["paths"].values() for operation in methods.values()
    ):
        # FastAPI's status of validation errors, which are 400 here
        operation["responses"].pop("422", None)
        if FOREIGN.intersection(operation["tags"]):
            operation["responses"]["default"] = {
                "description": "An error, as the followed interface describes it."
            }
        bodies = operation.get("requestBody", {}).get("content", {})
        if body := bodies.get("application/json"):
            fields = schemas[body["schema"]["$ref"].rsplit("/", 1)[1]]["properties"].items()
            body["example"] = {
                name: field["examples"][0] for name, field in fields if field.get("examples")
            }
            bodies |= {FORM: body, MULTIPART: body}
            operation["description"] = f"{operation.get('description', '')}\n\n{ANYWHERE}".strip()
    return document
