"""Parses parameters: a JSON body, a form and the query string are the same for a route."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

import orjson
from fastapi.exceptions import RequestValidationError
from fastapi.params import File
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from server.api.errors import BODY, COMPRESSED, EXCHANGE
from server.errors import InvalidRequest, UnsupportedMediaType

FIELDS_LIMIT = 10_000
INDEXED = re.compile(r"(\w+)\[([0-9]{1,5})\](?:\.(\w+)|\[(\w+)\])?")
"""The name of a list item or of its field, as forms write it."""
GZIP = b"\x1f\x8b"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"


class ParameterRoute(APIRoute):
    """A route that accepts its parameters as JSON, as a form and in the query string.

    Its function has one model of parameters: as the body, marked `File()` for a multipart form with
    one file, or marked `Query()` for GET and DELETE. The marks are for the documentation. The model
    is validated here: FastAPI would read the body again and resolve dependencies, which no route
    has.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        fields = [*self.dependant.query_params, *self.dependant.body_params]
        self.validates = bool(fields)
        """False for a function without parameters, which is a route of FastAPI."""
        if fields:
            [self._field] = fields
            self.app = self._run

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            await (await self.respond(request))(scope, receive, send)
        finally:
            await request.close()

    def is_page(self, request: Request) -> bool:
        """Returns whether the response is a page for a browser, which is free."""
        return False

    async def respond(self, request: Request) -> Response:
        read = uploaded if isinstance(self._field.field_info, File) else merged
        parameters, problems = self._field.validate(await read(request), {}, loc=("body",))
        if problems:
            raise RequestValidationError(problems)
        response: Response = await self.endpoint(
            request=request, parameters=parameters, **request.path_params
        )
        return response


def header(request: Request, name: bytes) -> str | None:
    exchange = request.scope.get(EXCHANGE)
    if exchange is None:
        return request.headers.get(name.decode())
    value: bytes | None = exchange.headers.get(name)
    return None if value is None else value.decode("latin-1")


def direct_routes(routes: Sequence[BaseRoute]) -> dict[tuple[str, str], ParameterRoute]:
    """Returns the routes that validate their parameters and have a fixed path, by method and
    path."""
    found: dict[tuple[str, str], ParameterRoute] = {}
    for route in routes:
        if isinstance(route, ParameterRoute) and route.validates and not route.param_convertors:
            for method in route.methods or ():
                scope = {"type": "http", "method": method, "path": route.path}
                if (
                    next(other for other in routes if other.matches(dict(scope))[0] == Match.FULL)
                    is route
                ):
                    found[method, route.path] = route
    return found


async def uploaded(request: Request) -> dict[str, Any]:
    """Returns the file and the other fields of a multipart form that are not empty. Raises
    UnsupportedMediaType for another body."""
    if not (header(request, b"content-type") or "").lower().startswith(MULTIPART):
        raise UnsupportedMediaType("Send the file as multipart/form-data.")
    form = await request.form(max_files=1, max_fields=100)
    return {
        name: value
        for name, value in form.items()
        if (value if isinstance(value, str) else value.filename)
    }


async def merged(request: Request) -> dict[str, Any]:
    """Returns the parameters by name; the body takes precedence over the query string. A repeated
    one is a list. Raises InvalidRequest, or UnsupportedMediaType for a body that is neither JSON
    nor a form."""
    query = request.scope["query_string"]
    values = decoded_pairs(query) if query else {}
    body = request.scope[BODY] if BODY in request.scope else await request.body()
    if body.strip():
        kind = (header(request, b"content-type") or "").partition(";")[0].strip().lower()
        if kind == "application/json" or kind.endswith("+json") or not kind:
            values |= json_object(body)
        elif kind == FORM:
            values |= decoded_pairs(body)
        elif kind == MULTIPART:
            form = await request.form(max_files=16, max_fields=FIELDS_LIMIT)  # files are ignored
            values |= gathered(
                [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
            )
        else:
            raise UnsupportedMediaType("Send the parameters as application/json or as a form.")
    return values


def accepted_media(accept: str, offered: Sequence[str]) -> str:
    """Returns the first media type of `offered` that `Accept` names, or the first. Qualities are
    not read."""
    return next((media for media in offered if media in accept.lower()), offered[0])


def prefers_html(request: Request) -> bool:
    return (
        accepted_media(header(request, b"accept") or "", ("application/json", "text/html"))
        == "text/html"
    )


def json_object(body: bytes) -> dict[str, Any]:
    """Returns the members of a JSON object without nulls, which clients send for absent parameters.
    Raises InvalidRequest."""
    try:
        values = orjson.loads(body.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError as error:
        try:
            body.decode()
        except UnicodeDecodeError as fault:
            if body.startswith(GZIP):
                raise UnsupportedMediaType(COMPRESSED.format("gzip")) from None
            raise InvalidRequest(f"The body is not UTF-8 at byte {fault.start}.") from None
        raise InvalidRequest(
            f"Invalid JSON format: {str(error).split(':')[0]} at byte {error.pos}."
        ) from None
    if not isinstance(values, dict):
        raise InvalidRequest("The JSON body must be an object.")
    return {name: value for name, value in values.items() if value is not None}


def decoded_pairs(encoded: bytes) -> dict[str, Any]:
    """Returns the parameters of a query string or urlencoded form, which may hold raw UTF-8. Raises
    InvalidRequest."""
    try:
        text = encoded.decode()
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_LIMIT
        )
    except UnicodeDecodeError:
        raise InvalidRequest("The parameters are not UTF-8.") from None
    except ValueError:
        raise InvalidRequest(f"There are more than {FIELDS_LIMIT:,} parameters.") from None
    return gathered(pairs)


def gathered(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Returns values by name; a repeated name has a list. `name[]` is the same as `name`;
    `name[0]`, `name[0].field` and `name[0][field]` are the items of a list and their fields."""
    values: dict[str, Any] = {}
    lists: dict[str, dict[int, Any]] = {}
    for written, value in pairs:
        if match := INDEXED.fullmatch(written):
            items = lists.setdefault(match[1], {})
            index = int(match[2])
            field = match[3] or match[4]
            item = items.setdefault(index, {} if field else value)
            if field and isinstance(item, dict):
                item[field] = value
            continue
        name = written.removesuffix("[]")
        if name not in values:
            values[name] = value
        elif isinstance(values[name], list):
            values[name].append(value)
        else:
            values[name] = [values[name], value]
    return values | {
        name: [items[index] for index in sorted(items)] for name, items in lists.items()
    }
