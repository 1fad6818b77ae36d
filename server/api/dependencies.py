"""Functions that routes share: callers, time limits, glossaries and JSON responses."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from server.access.authentication import Caller
from server.api.early_refusal import REPEATED
from server.api.errors import EXCHANGE, LOG_FIELDS
from server.api.parameters import header
from server.api.schemas.base import GlossaryPair
from server.config import Settings
from server.errors import InvalidRequest, PayloadTooLarge, TextTooLong
from server.kept import kept
from server.services import Services, default_options
from server.text.glossary import Entry, TermIndex
from server.text.language_id import Guesses
from server.translation.catalog import AUTO
from server.translation.types import Storage, TranslationRequest


def services_of(request: Request) -> Services:
    services: Services = request.scope["app"].services
    return services


async def enter(
    request: Request, characters: int = 0, api_key: str | None = None, requests: int = 1
) -> Caller:
    """Checks the caller's key, counts the request and its characters, and returns the caller.

    The key may also be in the header `Authorization` after any scheme, or in `X-Goog-Api-Key`.
    Raises Forbidden, Overloaded or TextTooLong.
    """
    services = services_of(request)
    client = request.scope.get("client")
    bearer = header(request, b"authorization")
    key = (
        api_key
        or (bearer and bearer.strip().partition(" ")[2].strip())
        or header(request, b"x-goog-api-key")
    )
    caller = await services.authenticator.identify(key, client[0] if client else "")
    if caller.key is not None:
        request.scope.get(LOG_FIELDS, {})["key"] = caller.key.id
    if (
        storage_of(request, caller) == "none"
        and (exchange := request.scope.get(EXCHANGE)) is not None
    ):
        exchange.is_forgotten = True
    await services.rate_limiter.count(caller, requests, characters)
    return caller


async def admit(
    request: Request, texts: Sequence[str], api_key: str | None, name: str = "q"
) -> Caller:
    """Checks the texts of the parameter `name`, and enters. Raises AttentiveError."""
    check_texts(tuple(texts), services_of(request).settings, name=name)
    return await enter(request, sum(map(len, texts)), api_key)


DETECTION = 500
"""Characters that take as long as the detection of a short text."""


async def language_guesses(request: Request, caller: Caller, texts: Sequence[str]) -> list[Guesses]:
    """Returns the languages of each text, the most probable first."""
    translator, accepted = services_of(request).translator, reader_languages(request)

    def guesses() -> list[Guesses]:
        return [translator.detector.detect(text, "", accepted) for text in texts]

    size = max(DETECTION * len(texts), sum(map(len, texts)))
    return await translator.work(caller.name, size, guesses)


def deadline(request: Request, limit: float = 0.0, field: float | None = None) -> float:
    """Returns the time limit of a request on the monotonic clock: the least of `limit` (0 for that
    of the settings), the header `X-Request-Timeout` and the parameter `field`, in seconds. Raises
    InvalidRequest for a header that is not a positive number."""
    limit = limit or services_of(request).settings.timeout_seconds
    if (given := header(request, b"x-request-timeout")) is not None:
        try:
            seconds = float(given)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise InvalidRequest("X-Request-Timeout must be a positive number of seconds.")
        limit = min(limit, seconds)
    return time.monotonic() + (min(limit, field) if field is not None else limit)


def storage_of(request: Request, caller: Caller) -> Storage:
    """Returns what may be stored and taken from the cache, by the caller's key and `Cache-Control`:
    no-store stores nothing, no-cache translates again."""
    if not caller.remembered:
        return "none"
    if header(request, b"cache-control") is None:
        return "use"
    stated = [value for name, value in request.scope["headers"] if name == b"cache-control"]
    return stated_storage(b",".join(stated))


@kept(64)
def stated_storage(control: bytes) -> Storage:
    directives = {directive.strip() for directive in control.lower().split(b",")}
    return "none" if b"no-store" in directives else "renew" if b"no-cache" in directives else "use"


def translation_request(request: Request, caller: Caller, **fields: Any) -> TranslationRequest:
    """Returns a request of `caller` with these fields and what its headers say. Its options and
    time limit are by default those of the settings."""
    if "options" not in fields:
        fields["options"] = default_options(services_of(request).settings)
    if "deadline" not in fields:
        fields["deadline"] = deadline(request)
    return TranslationRequest(
        client=caller.name,
        weight=caller.weight,
        storage=storage_of(request, caller),
        accepted=reader_languages(request),
        key=request.scope.get(REPEATED),
        **fields,
    )


def reader_languages(request: Request) -> tuple[str, ...]:
    return accepted_languages(header(request, b"accept-language"))


@kept(256)
def accepted_languages(header: str | None) -> tuple[str, ...]:
    """Returns at most five codes of an Accept-Language header, without their weights."""
    parts = (header or "")[:200].split(",")[:5]
    return tuple(
        [code for part in parts if (code := part.partition(";")[0].strip()) and code != "*"]
    )


async def glossary_terms(
    request: Request, caller: Caller, ids: Sequence[str], source: str | None, target: str
) -> TermIndex | None:
    """Returns the terms of the glossaries for a language pair; None without ids. Raises NotFound,
    UnsupportedLanguage, or InvalidRequest without a source language or a dictionary for the
    pair."""
    if not ids:
        return None
    if source is None or source.strip().lower() in ("", AUTO):
        raise InvalidRequest("A glossary needs the source language; name it.")
    services = services_of(request)
    catalog = services.translator.catalog
    return await services.glossaries.terms(
        caller.owner,
        ids,
        catalog.source(source),
        catalog.target(target),
        partial(services.translator.threads.run, caller.name),
    )


async def inline_or_stored(
    request: Request,
    caller: Caller,
    glossary: str | Sequence[GlossaryPair] | None,
    source: str,
    target: str,
) -> TermIndex | None:
    """Returns the terms of the parameter `glossary`: an id, or pairs."""
    if glossary is None or isinstance(glossary, str):
        return await glossary_terms(request, caller, [glossary] if glossary else [], source, target)
    entries = [
        Entry(pair.source, pair.target, pair.exact) for pair in glossary if pair.target.strip()
    ]
    return TermIndex(entries) if entries else None


def check_texts(
    texts: tuple[str, ...], settings: Settings, beam_size: int = 1, name: str = "q"
) -> None:
    """Checks number and length of texts, and the length times the beam width of the request,
    against the settings. Raises InvalidRequest with the `name` of the parameter, TextTooLong or
    PayloadTooLarge."""
    if not texts or texts == ("",):
        raise InvalidRequest(f"Invalid request: missing {name} parameter")
    if len(texts) > settings.list_limit:
        raise TextTooLong(
            f"Invalid request: request ({len(texts)}) exceeds text limit ({settings.list_limit})"
        )
    if (size := sum(map(len, texts))) > settings.char_limit:
        raise TextTooLong(
            f"Invalid request: request ({size}) exceeds text limit ({settings.char_limit})"
        )
    if beam_size == 1:  # the limit below is at least `char_limit`
        return
    limit = max(settings.beam_char_limit, settings.char_limit * (settings.beam_size or 1))
    if size * beam_size > limit:
        raise PayloadTooLarge(
            f"{size:,} characters with a beam width of {beam_size} are over the limit of "
            f"{limit // beam_size:,} for this "
            "beam width; send less text, a smaller beam_size or no reranking."
        )


class JsonResponse(Response):
    """A JSON response that writes its headers itself, which is faster."""

    media_type = "application/json"

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in (headers or {}).items()
        ]
        length = (b"content-length", b"%d" % len(self.body))
        self.raw_headers += length, (b"content-type", b"application/json")


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns a JSON response; numpy arrays and dataclasses are serialized."""
    return JsonResponse(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY), status, headers)
