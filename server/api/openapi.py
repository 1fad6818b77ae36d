"""The OpenAPI document: FastAPI's own, with the parameters that routes read themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from server.api.parameters import ParameterReader, UploadReader
from server.api.schemas.base import ErrorAnswer

RETRY_AFTER = {"description": "Seconds to wait.", "schema": {"type": "integer"}, "example": 1}
ERRORS = {
    400: "A missing or invalid parameter, an unsupported language, or a text over a limit.",
    403: "The key is missing or not valid.",
    404: "Not found.",
    410: "The id has expired.",
    413: "The body is too large, or the text is too long for the beam width.",
    415: "The body is neither JSON nor a form.",
    429: "The server is busy, or there were too many requests.",
    503: "The server is starting or stopping, or no worker runs.",
    504: "The time limit of the request has passed.",
}
"""Description of each error status."""
WORK = (400, 403, 413, 415, 429, 503, 504)
"""Errors of the routes that use a worker."""
ANYWHERE = "Parameters may be sent as JSON, as a form or in the query string; the body takes precedence."
REFERENCE = "#/components/schemas/"
SECURITY = {"type": "http", "scheme": "bearer", "description": "API key, or the admin key for `/admin/reload`."}
Json = dict[str, Any]
Responses = dict[int | str, Json]


def errors(*statuses: int, model: type[BaseModel] = ErrorAnswer) -> Responses:
    """Returns `responses` of a route for these statuses."""
    responses: Responses = {status: {"model": model, "description": ERRORS[status]} for status in statuses}
    for status in {429, 503}.intersection(statuses):
        responses[status]["headers"] = {"Retry-After": RETRY_AFTER}
    return responses


def content(examples: dict[str, str]) -> Json:
    """Returns a response that may also have these media types, each with an example of its text."""
    return {"content": {media: {"schema": {"type": "string"}, "example": text} for media, text in examples.items()}}


def document(app: FastAPI, routes: Iterable[APIRoute]) -> Json:
    """Returns the OpenAPI document of the application; `routes` are its routes."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    described = [(route, reader) for route in routes if route.include_in_schema for reader in readers(route)]
    models = {reader.model for _, reader in described}
    _, definitions = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)],
        ref_template=REFERENCE + "{model}",
    )
    components = document["components"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["schemas"] = dict(sorted({**components["schemas"], **definitions.get("$defs", {})}.items()))
    components["securitySchemes"] = {"key": SECURITY}
    document["security"] = [{}, {"key": []}]
    for route, reader in described:
        for method in route.methods or ():
            add_parameters(document["paths"][route.path][method.lower()], method, reader, components["schemas"])
    for methods in document["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)  # FastAPI's status of validation errors, which are 400 here
    return document


def readers(route: APIRoute) -> Iterator[ParameterReader[Any]]:
    """Yields the parameter readers among the dependencies of a route."""
    for dependency in route.dependant.dependencies:
        if isinstance(dependency.call, ParameterReader):
            yield dependency.call


def add_parameters(operation: Json, method: str, reader: ParameterReader[Any], schemas: Json) -> None:
    """Describes the parameters of a reader: in the query string of a GET or DELETE, else in the body."""
    name = reader.model.__name__
    schema = schemas[name]
    if method in ("GET", "DELETE"):
        operation.setdefault("parameters", []).extend(query_parameters(schema))
        return
    reference: Json = {"$ref": REFERENCE + name}
    if isinstance(reader, UploadReader):
        file = {"type": "object", "required": ["file"], "properties": {"file": {"type": "string", "format": "binary"}}}
        reference = {"allOf": [reference, file]}
    else:
        operation["description"] = f"{operation.get('description', '')}\n\n{ANYWHERE}".strip()
    body: Json = {"schema": reference}
    if not isinstance(reader, UploadReader):
        fields = schema["properties"].items()
        body["example"] = {name: field["examples"][0] for name, field in fields if field.get("examples")}
    operation["requestBody"] = {"content": dict.fromkeys(reader.media_types, body)}


def query_parameters(schema: Json) -> list[Json]:
    """Returns the properties of a model as parameters of the query string."""
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": field.get("description", ""),
            "schema": {key: field[key] for key in field if key not in ("examples", "description", "title")},
            **({"example": field["examples"][0]} if field.get("examples") else {}),
        }
        for name, field in schema["properties"].items()
    ]
