"""Parameters of a request: a JSON body, a form and the query string, merged and validated as one pydantic model."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from server.api.errors import validation_message
from server.errors import InvalidRequest, UnsupportedMediaType

FIELDS_LIMIT = 10_000
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
Model = TypeVar("Model", bound=BaseModel)


class ParameterReader(Generic[Model]):
    """FastAPI dependency that reads parameters of `model` from the body and the query string.

        parameters: Annotated[TranslateParameters, Depends(ParameterReader(TranslateParameters))]

    `server.api.openapi` documents the model as the request body, or as query parameters of a GET.
    """

    media_types: tuple[str, ...] = ("application/json", FORM, MULTIPART)

    def __init__(self, model: type[Model]) -> None:
        self.model = model

    async def __call__(self, request: Request) -> Model:
        """Raises InvalidRequest with one sentence, or UnsupportedMediaType."""
        return validated(self.model, await merged(request))


@dataclass(frozen=True, slots=True)
class Upload(Generic[Model]):
    """The file of a multipart form and the form's other fields."""

    content: bytes
    name: str
    parameters: Model


class UploadReader(ParameterReader[Model]):
    """Like ParameterReader, for a multipart form with one file in the field `file`."""

    media_types = (MULTIPART,)

    async def __call__(self, request: Request) -> Upload[Model]:  # type: ignore[override]
        """Raises InvalidRequest or UnsupportedMediaType."""
        if not request.headers.get("content-type", "").lower().startswith(MULTIPART):
            raise UnsupportedMediaType("Send the file as multipart/form-data.")
        async with request.form(max_files=1, max_fields=100) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise InvalidRequest("Invalid request: missing file parameter.")
            fields = gathered([(name, value) for name, value in form.multi_items() if isinstance(value, str)])
            content = await file.read()
        return Upload(content, file.filename, validated(self.model, fields))


def validated(model: type[Model], values: dict[str, Any]) -> Model:
    """Returns the values as an object of `model`. Raises InvalidRequest."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InvalidRequest(validation_message(error.errors(include_url=False, include_input=False))) from None


async def merged(request: Request) -> dict[str, Any]:
    """Returns the parameters by name; the body takes precedence over the query string. A repeated one is a list.

    Raises InvalidRequest with one sentence, or UnsupportedMediaType for a body that is neither JSON nor a form.
    """
    query = request.scope["query_string"]
    values = decoded_pairs(query) if query else {}
    body = await request.body()
    if body.strip():
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind == "application/json" or kind.endswith("+json") or not kind:
            values |= json_object(body)
        elif kind == FORM:
            values |= decoded_pairs(body)
        elif kind == MULTIPART:
            values |= await multipart_fields(request)
        else:
            raise UnsupportedMediaType("Send the parameters as application/json or as a form.")
    return values


def accepted_media(accept: str, offered: Sequence[str]) -> str:
    """Returns the first media type of `offered` that the header `Accept` names, or the first. Qualities are not read."""
    return next((media for media in offered if media in accept.lower()), offered[0])


def json_object(body: bytes) -> dict[str, Any]:
    """Returns the members of a JSON object without those that are null, which client libraries send for parameters that are
    not given. Raises InvalidRequest."""
    try:
        values = orjson.loads(body.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError as error:
        try:
            body.decode()
        except UnicodeDecodeError as fault:
            raise InvalidRequest(f"The body is not UTF-8 at byte {fault.start}.") from None
        raise InvalidRequest(f"The body is not valid JSON: {str(error).split(':')[0]} at byte {error.pos}.") from None
    if not isinstance(values, dict):
        raise InvalidRequest("The JSON body must be an object.")
    return {name: value for name, value in values.items() if value is not None}


def decoded_pairs(encoded: bytes) -> dict[str, Any]:
    """Returns the parameters of a query string or urlencoded form. Characters may also be UTF-8 that is not
    percent-encoded, as `curl -d` sends them. Raises InvalidRequest."""
    try:
        text = encoded.decode()
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_LIMIT)
    except UnicodeDecodeError:
        raise InvalidRequest("The parameters are not UTF-8.") from None
    except ValueError:
        raise InvalidRequest(f"There are more than {FIELDS_LIMIT:,} parameters.") from None
    return gathered(pairs)


async def multipart_fields(request: Request) -> dict[str, Any]:
    """Returns the text fields of a multipart form; its files are ignored."""
    form = await request.form(max_files=16, max_fields=FIELDS_LIMIT)
    return gathered([(name, value) for name, value in form.multi_items() if isinstance(value, str)])


def gathered(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Returns values by name; a repeated name has a list. `name[]` is the same as `name`."""
    values: dict[str, Any] = {}
    for written, value in pairs:
        name = written.removesuffix("[]")
        if name not in values:
            values[name] = value
        elif isinstance(values[name], list):
            values[name].append(value)
        else:
            values[name] = [values[name], value]
    return values
