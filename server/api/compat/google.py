"""Google's Cloud Translation v2 under /language/translate/v2, and the interface of its web page, whose
address some programs let one replace:

    GET /translate_a/single     src/modules/services/google.ts of windingwind/zotero-pdf-translate 2.4.6
    GET /translate_a/single     src/services/translate/google/index.jsx of pot-app/pot-desktop 3.0.7
    POST (all three paths)      trans/google/GoogleTranslator.kt and TK.kt of
                                YiiGuxing/TranslationPlugin 3.8.3, with `dj=1`

What else these programs send (`client`, `dt`, `hl`, `tk`) has no effect.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import (
    admit,
    enter,
    json_response,
    language_guesses,
    services_of,
    translation_request,
)
from server.api.errors import GOOGLE
from server.api.parameters import ParameterRoute
from server.api.schemas.base import (
    Code,
    Key,
    OptionalBool,
    OptionalCode,
    OptionalText,
    Parameters,
    Texts,
    lower_case,
    none_if_blank,
)
from server.text.languages import language_name, resolve_language_code
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
    caller = await admit(request, parameters.q, parameters.key)
    candidates = await language_guesses(request, caller, parameters.q)
    detections = [
        [{"language": guess.language, "confidence": guess.confidence / 100, "isReliable": False}]
        for guess, *_ in candidates
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


page_router = APIRouter(prefix="/translate_a", tags=["Extensions"], route_class=ParameterRoute)
GOOGLE_CODES = ("zh-CN", "zh-TW", "iw", "jw", "no", "pt", "tl")
"""Google's codes of languages that have several."""
Answers = list[tuple[str, str, str, float]]
"""Text, translation, language of the text and its probability, of each `q`."""
Encoding = Annotated[Literal["utf-8", "utf8"], BeforeValidator(lower_case)]


class GooglePageParameters(Parameters):
    q: Texts = Field(
        description="Text to translate; more than one is translated on its own.",
        examples=[["Hello"]],
    )
    tl: Code = Field(description="Language to translate into.", examples=["de"])
    sl: OptionalCode = Field(
        default=None, description="Language of the text, detected if absent or `auto`."
    )
    format: Literal["html", "text"] = Field(default="text", description="`html` keeps tags.")
    dj: OptionalBool = Field(default=None, description="Answer with an object in place of a list.")
    ie: Encoding = Field(default="utf-8", description="Encoding of the text.")
    oe: Encoding = Field(default="utf-8", description="Encoding of the answer.")
    key: Key = None
    token: Key = None


@page_router.get(
    "/single", name="translate", summary="Translate a text for clients of Google's page"
)
@page_router.post("/single", name="translate", include_in_schema=False)
@page_router.get(
    "/t", name="translate", summary="Translate texts for clients of Google's page, as a list"
)
@page_router.post("/t", name="translate", include_in_schema=False)
async def translate_page(
    request: Request, parameters: Annotated[GooglePageParameters, Query()]
) -> Response:
    translator, texts = services_of(request).translator, tuple(parameters.q)
    caller = await admit(request, texts, parameters.key or parameters.token)
    source, format = parameters.sl or AUTO, parameters.format
    work = translation_request(
        request, caller, texts=texts, source=source, target=parameters.tl, format=format
    )
    translations, answers = await translator.translate(work), Answers()
    for text, one in zip(texts, translations, strict=True):
        language, certainty = (
            (one.detected.language, one.detected.confidence / 100)
            if one.detected
            else (source, 1.0)
        )
        answers.append((text, one.text, google_code(language), certainty))
    if request.scope["route"].path.endswith("/t"):
        named = translations[0].detected is not None
        return json_response(
            [[text, language] if named else text for _, text, language, _ in answers]
        )
    return json_response(as_object(answers) if parameters.dj else as_list(answers))


@page_router.get(
    "/element.js", summary="A number for clients of Google's page, which has no effect here"
)
async def element() -> Response:
    """TranslationPlugin asks again for a number whose first part is not the present hour."""
    return Response(f"tkk='{int(time.time()) // 3600}.0'", media_type="text/javascript")


def as_list(answers: Answers) -> list[Any]:
    """Returns the answer without `dj`. Parts that are not served, such as the dictionary, are
    None."""
    _, _, language, certainty = answers[0]
    sentences = [[translation, text, None, None, 1] for text, translation, _, _ in answers]
    detected = [[language], None, [certainty], [language]]
    return [sentences, None, language, None, None, None, certainty, [], detected]


def as_object(answers: Answers) -> dict[str, Any]:
    """Returns the answer to `dj=1`, without the parts that are not served."""
    _, _, language, certainty = answers[0]
    sentences = [
        {"trans": translation, "orig": text, "backend": 1} for text, translation, _, _ in answers
    ]
    names = {
        "srclangs": [language],
        "srclangs_confidences": [certainty],
        "extended_srclangs": [language],
    }
    return {
        "sentences": sentences,
        "src": language,
        "confidence": certainty,
        "spell": {},
        "ld_result": names,
    }


def google_code(language: str) -> str:
    return resolve_language_code(language, GOOGLE_CODES) or language
