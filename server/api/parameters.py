"""Parameters as clients send them: a JSON body, a form, or the query string, also mixed."""

from __future__ import annotations

import math
import time
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from server.api.errors import sentence_of
from server.api.middleware.request_body import BODY
from server.errors import InvalidRequest, UnsupportedMediaType

FIELDS_LIMIT = 10_000
FORM = "application/x-www-form-urlencoded"
Parameters = TypeVar("Parameters", bound=BaseModel)


async def read(request: Request, schema: type[Parameters]) -> Parameters:
    """All parameters of a request as one validated object; the body wins over the query string.

    Raises InvalidRequest with one sentence, UnsupportedMediaType for a body that is neither JSON nor a form.
    """
    return validated(schema, await raw(request))


def validated(schema: type[Parameters], values: dict[str, Any]) -> Parameters:
    """The values as an object of that schema. Raises InvalidRequest."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        raise InvalidRequest(sentence_of(error.errors(include_url=False, include_input=False))) from None


async def raw(request: Request) -> dict[str, Any]:
    """Parameters by name; one that is repeated in a form or query is a list."""
    query = request.scope["query_string"]
    values = pairs(query) if query else {}
    body: bytes = request.scope[BODY]
    if body.strip():
        kind = (header(request, b"content-type") or "").split(";")[0].strip().lower()
        if kind == "application/json" or kind.endswith("+json") or not kind:
            values |= json_object(body)
        elif kind == FORM:
            values |= pairs(body)
        elif kind == "multipart/form-data":
            values |= await multipart(request)
        else:
            raise UnsupportedMediaType("Send the parameters as application/json or as a form.")
    return values


def header(request: Request, name: bytes) -> str | None:
    """The first header of that name, or None. Names are in small letters, here as in what a server passes on."""
    for found, value in request.scope["headers"]:
        if found == name:
            text: str = value.decode("latin-1")
            return text
    return None


def json_object(body: bytes) -> dict[str, Any]:
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {str(error).split(':')[0]} at byte {error.pos}.") from None
    if not isinstance(values, dict):
        raise InvalidRequest("The JSON body must be an object.")
    return values


def pairs(encoded: bytes) -> dict[str, Any]:
    """Parameters of a query string or urlencoded form."""
    try:
        text = encoded.decode("ascii")
        found = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_LIMIT)
    except UnicodeDecodeError:
        raise InvalidRequest("The parameters are not percent-encoded UTF-8.") from None
    except ValueError:
        raise InvalidRequest(f"There are more than {FIELDS_LIMIT:,} parameters.") from None
    return gathered(found)


async def multipart(request: Request) -> dict[str, Any]:
    """The text fields of a multipart form; files are for the endpoints that take files."""
    form = await request.form(max_files=16, max_fields=FIELDS_LIMIT)
    return gathered([(name, value) for name, value in form.multi_items() if isinstance(value, str)])


def gathered(found: list[tuple[str, str]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for written, value in found:
        name = written.removesuffix("[]")
        if name not in values:
            values[name] = value
        elif isinstance(values[name], list):
            values[name].append(value)
        else:
            values[name] = [values[name], value]
    return values


def deadline(request: Request, limit: float, field: float | None = None) -> float:
    """When a request is to be given up, on the monotonic clock: `X-Request-Timeout` or the field in seconds, at most
    `limit`.

    Raises InvalidRequest for a header that is not a positive number.
    """
    wanted = header(request, b"x-request-timeout")
    if wanted is not None:
        try:
            seconds = float(wanted)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise InvalidRequest("X-Request-Timeout must be a positive number of seconds.")
        limit = min(limit, seconds)
    return time.monotonic() + (min(limit, field) if field is not None else limit)


def number_or_word(value: Any) -> Any:
    """For parameters such as `head=3` and `head=mean`: digits as an int, anything else in lower case."""
    if not isinstance(value, str):
        return value
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else value.strip().lower()


def head_mask(text: str | None) -> tuple[tuple[str, int, int], ...]:
    """Heads from "kind.layer.head,...". Raises InvalidRequest where the text is something else."""
    found: set[tuple[str, int, int]] = set()
    for part in text.split(",") if text else ():
        match part.strip().split("."):
            case [""]:
                continue
            case [("cross" | "encoder" | "decoder") as kind, layer, head] if all(
                number.isascii() and number.isdigit() and len(number) < 4 for number in (layer, head)
            ):
                found.add((kind, int(layer), int(head)))
            case _:
                raise InvalidRequest("masked_heads must look like cross.0.1,encoder.2.3 (kind.layer.head from 0).")
    return tuple(sorted(found))
