"""Status codes of errors, and their response bodies in each interface."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from server import errors
from server.api.validation_messages import sentence_of

log = logging.getLogger(__name__)

STATUS: dict[type[errors.AttentiveError], int] = {
    errors.InvalidRequest: 400,
    errors.UnsupportedLanguage: 400,
    errors.TextTooLong: 400,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.UnknownTranslation: 404,
    errors.ExpiredTranslation: 410,
    errors.PayloadTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.Overloaded: 429,
    errors.TranslationFailed: 500,
    errors.Unavailable: 503,
    errors.StateUnreachable: 503,
    errors.DeadlineExceeded: 504,
}
ROUTING = {404: "There is nothing at this address.", 405: "This address does not take this method."}

ErrorBody = Callable[[int, str], dict[str, object]]
"""Function of the status and the message that returns the body of an error."""


def default_body(status: int, message: str) -> dict[str, object]:
    """Returns the body of errors in LibreTranslate's interface, as in ErrorAnswer."""
    return {"error": message}


def status_and_message(error: Exception) -> tuple[int, str, dict[str, str]]:
    """Returns status, one sentence and further headers. An unexpected exception is logged and is a 500 without
    details."""
    if isinstance(error, errors.AttentiveError):
        headers = {"Retry-After": str(error.retry_after)} if isinstance(error, errors.RetryLater) else {}
        return STATUS[type(error)], error.message, headers
    if isinstance(error, RequestValidationError):
        return 400, sentence_of(error.errors()), {}
    if isinstance(error, HTTPException):
        message = ROUTING.get(error.status_code) or str(error.detail) or HTTPStatus(error.status_code).phrase
        return error.status_code, message, dict(error.headers or {})
    log.error("unexpected error", exc_info=error)
    return 500, "Something went wrong on the server; its log says what.", {}


class ErrorResponses:
    """Makes error responses. `bodies` are path prefixes with the function for bodies below each."""

    def __init__(self, bodies: Sequence[tuple[str, ErrorBody]] = ()) -> None:
        self._bodies = tuple(bodies)

    def response(self, path: str, error: Exception) -> Response:
        """Returns the response to a request for `path` that raised `error`."""
        status, message, headers = status_and_message(error)
        body = next((body for prefix, body in self._bodies if path.startswith(prefix)), default_body)
        return Response(orjson.dumps(body(status, message)), status, headers, "application/json")
