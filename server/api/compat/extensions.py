"""The requests of browser extensions, each under a path of its own. Written down in:

    /imme              dist/chrome/content_main.js of immersive-translate/immersive-translate: `text_list`
    /kiss              src/apis/trans.js of fishjar/kiss-translator: `genCustom` and `parseTransRes`
    /hcfy              docs/services/custom-api.md of lmk123/highlight-translator-docs
    /deeplx/translate  service/service.go of OwO-Network/DeepLX: `PayloadFree`

They send no key, or one as the parameter `token` of the address, or one after `Bearer`. Errors are {"error": ...}, or those of
DeepLX under its path.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import cache
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from server.api.compat.plain import admit, translated
from server.api.dependencies import json_response, reader_languages, services_of
from server.api.errors import DEEPLX
from server.api.parameters import ParameterRoute
from server.api.schemas.base import Code, Key, OptionalCode, OptionalText, Parameters, Texts, list_of_one, none_if_blank
from server.text.language_id import resolve_language_code
from server.text.languages import table
from server.translation.catalog import AUTO
from server.translation.types import Format, Translation

router = APIRouter(tags=["Extensions"], route_class=ParameterRoute)
SOURCE = "Language of the texts; detected if absent or `auto`."
TARGET = "Language to translate into."
TEXT = "Text to translate."


class ExtensionParameters(Parameters):
    token: Key = None


class ImmersiveParameters(ExtensionParameters):
    text_list: Texts = Field(description="Texts to translate.", examples=[["The cat sleeps."]])
    source_lang: OptionalCode = Field(default=None, description=SOURCE)
    target_lang: Code = Field(description=TARGET, examples=["de"])


class KissParameters(ExtensionParameters):
    text: StrictStr | None = Field(default=None, description=TEXT, examples=["The cat sleeps."])
    texts: Texts | None = Field(default=None, description="Texts to translate, in place of `text`.")
    source: OptionalCode = Field(default=None, alias="from", description=SOURCE)
    target: Code = Field(alias="to", description=TARGET, examples=["de"])


class HcfyParameters(ExtensionParameters):
    text: StrictStr = Field(description=TEXT, examples=["The cat sleeps."])
    destination: Annotated[list[Code], BeforeValidator(list_of_one), Field(min_length=1, max_length=16)] = Field(
        description="Chinese names of languages: the second one counts if the text is in the first.",
        examples=[["德语"]],
    )
    source: OptionalText = Field(default=None, max_length=32, description="Chinese name of the language of the text.")


class DeeplxParameters(ExtensionParameters):
    text: StrictStr = Field(description=TEXT, examples=["The cat sleeps."])
    source_lang: OptionalCode = Field(default=None, description=SOURCE)
    target_lang: Code = Field(description=TARGET, examples=["DE"])
    tag_handling: Annotated[Literal["html", "xml"] | None, BeforeValidator(none_if_blank)] = Field(
        default=None, description="Keep tags, and translate the text between them."
    )


@router.post("/imme", name="translate", summary="Translate texts for Immersive Translate")
async def immersive(request: Request, parameters: ImmersiveParameters) -> Response:
    texts, source = parameters.text_list, parameters.source_lang
    caller = await admit(request, texts, parameters.token, "text_list")
    translations = await translated(request, caller, texts, source, parameters.target_lang)
    answers = [{"detected_source_lang": source_of(one, source), "text": one.text} for one in translations]
    return json_response({"translations": answers})


@router.post("/kiss", name="translate", summary="Translate a text or texts for KISS Translator")
async def kiss(request: Request, parameters: KissParameters) -> Response:
    texts, source = parameters.texts or [parameters.text or ""], parameters.source
    caller = await admit(request, texts, parameters.token, "text")
    translations = await translated(request, caller, texts, source, parameters.target)
    answers = [{"text": one.text, "src": source_of(one, source)} for one in translations]
    return json_response(answers if parameters.texts else answers[0])


@router.post("/hcfy", name="translate", summary="Translate a text for Hcfy")
async def hcfy(request: Request, parameters: HcfyParameters) -> Response:
    """Each line is translated on its own. Languages have their Chinese names; codes are accepted too."""
    text, translator = parameters.text, services_of(request).translator
    lines, source = text.split("\n"), parameters.source and code_of(parameters.source)
    caller = await admit(request, lines, parameters.token, "text")
    if source is None:  # detected without a target, because the text may be in the first one
        [guess, *_] = await asyncio.to_thread(translator.detector.detect, text, "", reader_languages(request))
        source = guess.language if guess.confidence and guess.language in translator.catalog.sources else AUTO
    targets = [code_of(name) for name in parameters.destination]
    target = next((code for code in targets if resolve_language_code(code, [source]) is None), targets[0])
    translations = await translated(request, caller, lines, source, target)
    source = source_of(translations[0], source)
    answer = {"text": text, "from": name_of(source), "to": name_of(target)}
    return json_response(answer | {"result": [one.text for one in translations]})


@router.post(f"{DEEPLX}/translate", name="translate", summary="Translate a text for clients of DeepLX")
async def deeplx(request: Request, parameters: DeeplxParameters) -> Response:
    texts, source, target = [parameters.text], parameters.source_lang, parameters.target_lang
    caller = await admit(request, texts, parameters.token, "text")
    format: Format = "html" if parameters.tag_handling else "text"
    [translation] = await translated(request, caller, texts, source, target, format)
    body = {"code": 200, "id": secrets.randbelow(10**10), "data": translation.text, "alternatives": []}
    languages = {"source_lang": source_of(translation, source).upper(), "target_lang": target.upper()}
    return json_response(body | languages | {"method": "Free"})


def source_of(translation: Translation, named: str | None) -> str:
    """Returns the detected language of a text, or else the one that the request names."""
    return translation.detected.language if translation.detected else named or AUTO


@cache
def chinese_names() -> dict[str, str]:
    """Returns Hcfy's names of languages by code."""
    return dict(row.split() for row in table("chinese_names"))


def code_of(name: str) -> str:
    """Returns the code of a language by its Chinese name; another text is a code itself."""
    return {chinese: code for code, chinese in chinese_names().items()}.get(name, name)


def name_of(code: str) -> str:
    """Returns the Chinese name of a language, or its code if it is not in the table."""
    return chinese_names().get(resolve_language_code(code, chinese_names()) or "", code)
