"""Status codes of errors, and their response bodies in each interface."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from server import errors
from server.kept import kept

log = logging.getLogger(__name__)

STATUS: dict[type[errors.AttentiveError], int] = {
    errors.InvalidRequest: 400,
    errors.UnsupportedLanguage: 400,
    errors.TextTooLong: 400,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.ExpiredTranslation: 410,
    errors.PayloadTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.Overloaded: 429,
    errors.QuotaExceeded: 429,
    errors.TranslationFailed: 500,
    errors.Unavailable: 503,
    errors.ModelFailed: 503,
    errors.StateUnreachable: 503,
}
EXHAUSTED_RETRY_AFTER = "5"
LOG_FIELDS = "attentive.log"
"""Key in ASGI's scope: further fields of the log line, such as the id of the key."""
EXCHANGE = "attentive.exchange"
"""Key in ASGI's scope: the Exchange."""
BODY = "attentive.body"
"""Key in ASGI's scope: the whole body, where it has been read."""
COMPRESSED = "The body has the content encoding {}; send it without one."
GOOGLE = "/language/translate/v2"
"""Prefix of Google's interface."""
GOOGLE_STATUS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
ROUTING = {404: "There is nothing at this address.", 405: "This address does not take this method."}
DEEPL = ("/v2/", "/v3/")
"""Prefixes of DeepL's interface."""
DEEPLX = "/deeplx"
"""Prefix of DeepLX's interface."""
DEEPL_QUOTA = 456
"""DeepL's status for a key without characters."""
NOT_OFFERED = (
    "This server does not have this function of DeepL's interface, or the address is wrong."
)

MESSAGE_START = re.compile("^((Input|String|List) should|Value error, must)")
"""Start of pydantic's messages; the name of the parameter replaces it."""

COLLECTION = re.compile(r"valid (?:frozenset|tuple|set)\b")
"""Python's names of a JSON list."""


def body_of(path: str, status: int, message: str) -> dict[str, object]:
    """Returns the body of an error in the form of the interface at this path."""
    if path.startswith(DEEPL):
        return {"message": message}
    if path.startswith(DEEPLX):
        return {"code": status, "message": message}
    if path.startswith(GOOGLE):
        reason = "backendError" if status >= 500 else "invalid"
        details = [{"message": message, "domain": "global", "reason": reason}]
        name = GOOGLE_STATUS.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": name, "errors": details}}
    return {"error": message}


def status_and_message(error: Exception) -> tuple[int, str, dict[str, str]]:
    """Returns status, message and further headers. Unexpected exceptions are logged; they are a 503
    where the system lacks a resource, else a 500."""
    if isinstance(error, errors.AttentiveError):
        headers = (
            {"Retry-After": str(error.retry_after)} if isinstance(error, errors.RetryLater) else {}
        )
        return STATUS[type(error)], error.message, headers
    if isinstance(error, TimeoutError):
        return 504, errors.TIME_PASSED, {}
    if isinstance(error, RequestValidationError):
        return 400, validation_message(error.errors()), {}
    if isinstance(error, HTTPException):
        message = (
            ROUTING.get(error.status_code)
            or str(error.detail)
            or HTTPStatus(error.status_code).phrase
        )
        return error.status_code, message, dict(error.headers or {})
    if (resource := errors.exhausted(error)) is not None:
        log.error("out of %s: %s", *resource, exc_info=error)
        return (
            503,
            f"The server is out of {resource.name}; try again later.",
            {"Retry-After": EXHAUSTED_RETRY_AFTER},
        )
    log.error("unexpected error", exc_info=error)
    return 500, "Something went wrong on the server; its log says what.", {}


def in_words_of(path: str, error: Exception, message: str) -> str:
    """Returns the message in the words that clients of DeepL or LibreTranslate look for."""
    if isinstance(error, errors.UnsupportedLanguage) and error.role:
        if path.startswith(DEEPL):
            return f"Value for '{error.role}_lang' not supported: {message}"
        return (
            message
            if path.startswith(GOOGLE)
            else f"{error.code} is not supported{error.reason and ': ' + error.reason}"
        )
    if isinstance(error, HTTPException) and error.status_code == 404 and path.startswith(DEEPL):
        return NOT_OFFERED
    if isinstance(error, errors.Overloaded) and not path.startswith((*DEEPL, GOOGLE)):
        return f"Slowdown: {message}"
    return message


def validation_message(problems: Sequence[Any]) -> str:
    """Returns pydantic's errors of the first wrong parameter as one sentence with its name, such as
    `q[1]`, without its value. Of the errors of a union those deepest within the value count."""
    places = [
        [part for part in problem["loc"] if part not in ("body", "query", "header", "path")]
        for problem in problems
    ]
    depth = max(len(place) for place in places if place[:1] == places[0][:1])
    chosen = [
        number
        for number, place in enumerate(places)
        if place[:1] == places[0][:1] and len(place) == depth
    ]
    first, *inner = places[chosen[0]] or ["parameters"]
    index = next((number for number, part in enumerate(inner) if isinstance(part, int)), len(inner))
    name = "".join(
        [first, *(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner[index:])]
    )
    if problems[chosen[0]]["type"] == "missing":
        return f"Invalid request: missing {name} parameter"
    if name == "alternatives" and problems[chosen[0]]["type"] == "int_parsing":
        return "Invalid request: alternatives parameter is not a number"
    texts = [MESSAGE_START.sub("must", problems[number]["msg"]).rstrip(".") for number in chosen]
    texts = [COLLECTION.sub("valid list", text) for text in texts]
    return f"Invalid request: {name} {' or '.join(dict.fromkeys(texts))}."


def path_of(scope: Scope) -> str:
    """Returns the path of a request without the prefix of --root-path."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def error_response(scope: Scope, error: Exception) -> Response:
    path = path_of(scope)
    # messages that contain nothing of the request
    if isinstance(error, errors.RetryLater | errors.Forbidden):
        reason = error.reason if isinstance(error, errors.Overloaded) else type(error).__name__
        known = {"key": error.key} if isinstance(error, errors.Forbidden) and error.key else {}
        scope.get(LOG_FIELDS, {}).update(known, reason=reason, detail=error.message)
    if type(error) is errors.Overloaded:
        return _overloaded(path, error.message, error.retry_after)
    return _response(path, error)


@kept(1024)
def _overloaded(path: str, message: str, retry_after: int) -> Response:
    """Returns a cached response: under load there are many refusals and few different ones."""
    return _response(path, errors.Overloaded(message, retry_after))


def _response(path: str, error: Exception) -> Response:
    status, message, headers = status_and_message(error)
    message = in_words_of(path, error, message)
    if isinstance(error, errors.QuotaExceeded) and path.startswith(DEEPL):
        status = DEEPL_QUOTA
    return Response(
        orjson.dumps(body_of(path, status, message)), status, headers, "application/json"
    )
