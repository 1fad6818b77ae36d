"""OpenAPI for routes that read their parameters themselves, because they take JSON, forms and query strings alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from server.api.schemas import ErrorAnswer

ERRORS: dict[int, str] = {
    400: "A missing or bad parameter, an unsupported language, or a text over a limit.",
    403: "The key is missing or not valid.",
    413: "The body is too large.",
    415: "The body is neither JSON nor a form.",
    429: "Too busy, or too many requests from you; `Retry-After` says when to come back.",
    503: "Starting, stopping or without a worker; `Retry-After` says when to come back.",
    504: "The time that the request allows has passed.",
}


def documented(
    summary: str,
    parameters: type[BaseModel] | None,
    answer: type[BaseModel] | Any,
    errors: tuple[int, ...] = tuple(ERRORS),
) -> dict[str, Any]:
    """Arguments of a route decorator: summary, request body, answer and errors."""
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorAnswer, "description": ERRORS[status]} for status in errors
    }
    responses[200] = {"model": answer}
    extra: dict[str, Any] = {}
    if parameters is not None:
        schema = parameters.model_json_schema(ref_template="#/components/schemas/{model}")
        kinds = ("application/json", "application/x-www-form-urlencoded")
        extra["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    return {"summary": summary, "responses": responses, "openapi_extra": extra, "response_model": None}


def documented_query(
    summary: str, parameters: type[BaseModel], answer: Any = dict[str, Any], also: Sequence[str] = ()
) -> dict[str, Any]:
    """The same for a GET whose parameters are all in the query string; `also` are further media types of its answer."""
    schema = parameters.model_json_schema(ref_template="#/components/schemas/{model}")
    errors = {400: ERRORS[400], 404: "No such id.", 410: "The id is no longer kept."}
    errors |= {status: ERRORS[status] for status in (429, 503, 504)}
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorAnswer, "description": text} for status, text in errors.items()
    }
    responses[200] = {"model": answer, "content": {kind: {"schema": {"type": "string"}} for kind in also}}
    query = [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": field.get("description", ""),
            "schema": {key: value for key, value in field.items() if key != "examples"},
            **({"example": field["examples"][0]} if field.get("examples") else {}),
        }
        for name, field in schema["properties"].items()
    ]
    return {"summary": summary, "responses": responses, "openapi_extra": {"parameters": query}, "response_model": None}
