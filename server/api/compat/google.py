"""Google-compatible translation (Cloud Translation v2) under /language/translate/v2."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import (
    admit,
    enter,
    json_response,
    reader_languages,
    services_of,
    translation_request,
)
from server.api.errors import GOOGLE
from server.api.parameters import ParameterRoute
from server.api.schemas.base import (
    Code,
    OptionalCode,
    OptionalText,
    Parameters,
    Texts,
    none_if_blank,
)
from server.text.languages import language_name
from server.translation.catalog import AUTO

router = APIRouter(prefix=GOOGLE, tags=["Google v2"], route_class=ParameterRoute)
Model = Annotated[
    Literal["nmt", "base"] | None,
    BeforeValidator(none_if_blank),
    Field(default=None, description="No effect: there is one model for a pair."),
]
GoogleKey = Annotated[
    StrictStr | None,
    Field(default=None, max_length=512, description="API key; `X-Goog-Api-Key` works too."),
]


class GoogleParameters(Parameters):
    q: Texts = Field(description="Texts to translate.", examples=[["Hello, world!"]])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    source: OptionalCode = Field(
        default=None, description="Language of the texts; detected if absent.", examples=["en"]
    )
    format: Literal["html", "text"] = Field(default="html", description="`html` keeps tags.")
    model: Model = None
    key: GoogleKey = None


class GoogleDetectParameters(Parameters):
    q: Texts = Field(
        description="Texts whose language is to be detected.", examples=[["Guten Morgen"]]
    )
    key: GoogleKey = None


class GoogleLanguagesParameters(Parameters):
    target: OptionalText = Field(
        default=None, description="Any value adds the English names of the languages."
    )
    key: OptionalText = Field(default=None, description="API key; `X-Goog-Api-Key` works too.")


@router.get("", include_in_schema=False)
@router.post("", summary="Translate texts")
async def translate(request: Request, parameters: GoogleParameters) -> Response:
    caller = await admit(request, parameters.q, parameters.key)
    source, texts = parameters.source or AUTO, tuple(parameters.q)
    work = translation_request(
        request,
        caller,
        texts=texts,
        source=source,
        target=parameters.target,
        format=parameters.format,
    )
    answers = []
    for translation in await services_of(request).translator.translate(work):
        detected = (
            {"detectedSourceLanguage": translation.detected.language}
            if translation.detected
            else {}
        )
        answers.append({"translatedText": translation.text} | detected)
    return json_response({"data": {"translations": answers}})


@router.get("/detect", include_in_schema=False)
@router.post("/detect", summary="Detect languages")
async def detect(request: Request, parameters: GoogleDetectParameters) -> Response:
    await admit(request, parameters.q, parameters.key)
    services = services_of(request)
    candidates = [
        await asyncio.to_thread(
            services.translator.detector.detect, text, "", reader_languages(request)
        )
        for text in parameters.q
    ]
    detections = [
        [
            {"language": best.language, "confidence": best.confidence / 100, "isReliable": False}
            for best in guesses[:1]
        ]
        for guesses in candidates
    ]
    return json_response({"data": {"detections": detections}})


@router.get("/languages", summary="List languages")
@router.post("/languages", include_in_schema=False)
async def languages(
    request: Request,
    parameters: Annotated[GoogleLanguagesParameters, Query()],
) -> Response:
    await enter(request, 0, parameters.key)
    codes = services_of(request).translator.catalog.languages
    entries = [
        {"language": code} | ({"name": language_name(code)} if parameters.target else {})
        for code in codes
    ]
    return json_response({"data": {"languages": entries}})
