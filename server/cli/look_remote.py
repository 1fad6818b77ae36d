"""Fetches the attention of a sentence from a running server, for `attentive look --server`."""

from __future__ import annotations

from http.client import TOO_MANY_REQUESTS
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import orjson

from server.errors import AttentiveError, ClientError, InvalidRequest, Unavailable

TIMEOUT_SECONDS = 60.0
_ANSWER_BYTES = 200_000_000
_ERROR_BYTES = 100_000


def fetched(server: str, fields: dict[str, Any], api_key: str | None = None) -> bytes:
    """Returns the answer of GET /attention. Raises ClientError or AttentiveError with the server's own sentence, or
    Unavailable."""
    if urlsplit(server).scheme not in ("http", "https") or not urlsplit(server).netloc:
        raise InvalidRequest("--server must be an address such as http://localhost:8000.")
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    request = Request(f"{server.rstrip('/')}/attention?{urlencode(fields)}", headers=headers)  # noqa: S310  checked above
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return bytes(answer.read(_ANSWER_BYTES))
    except HTTPError as error:
        wrong = 400 <= error.code < 500 and error.code != TOO_MANY_REQUESTS
        raise (ClientError if wrong else AttentiveError)(_sentence(error)) from None
    except (URLError, OSError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else cause
        raise Unavailable(f"The server at {server} cannot be reached: {reason}.") from None


def _sentence(error: HTTPError) -> str:
    """Returns the sentence of an error answer."""
    try:
        return str(orjson.loads(error.read(_ERROR_BYTES))["error"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {error.code}; is it Attentive?"
