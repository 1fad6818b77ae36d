"""The dialect of Google's Cloud Translation v2 under /language/translate/v2, as its REST clients speak it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.search.options import DecodingOptions
from server.api import parameters
from server.api.dependencies import enter, json_response, services_of
from server.api.openapi import documented
from server.api.routes.translate import check_texts
from server.api.schemas import Code, Schema
from server.text.language_names import language_name
from server.translation.catalog import AUTO
from server.translation.types import TranslationRequest

PREFIX = "/language/translate/v2"
router = APIRouter(prefix=PREFIX, tags=["Google v2 dialect"])
STATES = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


def shape(status: int, message: str) -> dict[str, object]:
    """How errors are written below the prefix."""
    state = STATES.get(status, "UNAVAILABLE" if status == HTTPStatus.SERVICE_UNAVAILABLE else "INTERNAL")
    errors = [{"message": message, "domain": "global", "reason": "backendError" if status >= 500 else "invalid"}]
    return {"error": {"code": status, "message": message, "status": state, "errors": errors}}


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Texts = Annotated[list[StrictStr], BeforeValidator(_list)]
OptionalCode = Annotated[Code | None, BeforeValidator(lambda value: None if value == "" else value)]


class GoogleParameters(Schema):
    q: Texts = Field(description="Texts to translate.", examples=[["Hello, world!"]])
    target: Code = Field(examples=["de"])
    source: OptionalCode = Field(default=None, examples=["en"])
    format: Literal["html", "text"] = "html"
    key: StrictStr | None = Field(default=None, max_length=512)


class GoogleDetectParameters(Schema):
    q: Texts = Field(description="Texts whose language is asked for.")
    key: StrictStr | None = Field(default=None, max_length=512)


@router.get("", include_in_schema=False)
@router.post("", **documented("Translate texts, in Google's v2 dialect", GoogleParameters, dict[str, Any]))
async def translate(request: Request) -> Response:
    services = services_of(request)
    asked = await parameters.read(request, GoogleParameters)
    check_texts(tuple(asked.q), services.settings)
    wanted = TranslationRequest(
        texts=tuple(asked.q),
        source=asked.source or AUTO,
        target=asked.target,
        format=asked.format,
        options=DecodingOptions(beam_size=services.settings.beam_size, loop_guard=True),
        client=await enter(request, sum(map(len, asked.q)), asked.key or goog_key(request)),
        deadline=parameters.deadline(request, services.settings.timeout_seconds),
    )
    translations = [
        {"translatedText": done.text} | ({"detectedSourceLanguage": done.detected.language} if done.detected else {})
        for done in await services.translator.translate(wanted)
    ]
    return json_response({"data": {"translations": translations}})


@router.get("/detect", include_in_schema=False)
@router.post("/detect", **documented("Detect languages, in Google's dialect", GoogleDetectParameters, dict[str, Any]))
async def detect(request: Request) -> Response:
    services = services_of(request)
    asked = await parameters.read(request, GoogleDetectParameters)
    check_texts(tuple(asked.q), services.settings)
    await enter(request, sum(map(len, asked.q)), asked.key or goog_key(request))
    found = [await asyncio.to_thread(services.translator.detect, text) for text in asked.q]
    detections = [
        [
            {"language": guess.language, "confidence": guess.confidence / 100, "isReliable": False}
            for guess in guesses[:1]
        ]
        for guesses in found
    ]
    return json_response({"data": {"detections": detections}})


@router.get("/languages", summary="List languages, in Google's v2 dialect")
@router.post("/languages", include_in_schema=False)
async def languages(request: Request) -> Response:
    asked = await parameters.raw(request)
    key = asked.get("key")
    await enter(request, 0, key if isinstance(key, str) and key else goog_key(request))
    codes = services_of(request).translator.catalog.languages
    entries = [{"language": code} | ({"name": language_name(code)} if asked.get("target") else {}) for code in codes]
    return json_response({"data": {"languages": entries}})


def goog_key(request: Request) -> str | None:
    return request.headers.get("x-goog-api-key") or None
