"""The interface of Google's web page, whose address other programs let one replace. Read by:

    GET /translate_a/single  src/modules/services/google.ts of windingwind/zotero-pdf-translate
    2.4.6 GET /translate_a/single  src/services/translate/google/index.jsx of pot-app/pot-desktop
    3.0.7 POST (all three paths)   trans/google/GoogleTranslator.kt and TK.kt of
    YiiGuxing/TranslationPlugin 3.8.3, with `dj=1`

`client`, `dt`, `hl`, `tk` and what else these programs send has no effect.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import admit, json_response, services_of, translation_request
from server.api.parameters import ParameterRoute
from server.api.schemas.base import (
    Code,
    Key,
    OptionalBool,
    OptionalCode,
    Parameters,
    Texts,
    lower_case,
)
from server.text.languages import resolve_language_code
from server.translation.catalog import AUTO

router = APIRouter(prefix="/translate_a", tags=["Extensions"], route_class=ParameterRoute)
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


@router.get("/single", summary="Translate a text for clients of Google's page")
@router.post("/single", include_in_schema=False)
@router.get("/t", summary="Translate texts for clients of Google's page, as a list")
@router.post("/t", include_in_schema=False)
async def translate(
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


@router.get(
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
    """Returns Google's code of a language."""
    return resolve_language_code(language, GOOGLE_CODES) or language
