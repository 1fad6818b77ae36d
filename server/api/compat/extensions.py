"""The requests of browser extensions, each under a path of its own:

    /imme              `text_list` in dist/chrome/content_main.js of
                       immersive-translate/immersive-translate
    /kiss              `genCustom` and `parseTransRes` in src/apis/trans.js of fishjar/kiss-translator
    /hcfy              docs/services/custom-api.md of lmk123/highlight-translator-docs
    /deeplx/translate  `PayloadFree` in service/service.go of OwO-Network/DeepLX

A key is the parameter `token` of the address or stands after `Bearer`. Errors are {"error": ...}, or
those of DeepLX under its path.
"""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import AliasChoices, BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import (
    admit,
    json_response,
    language_guesses,
    services_of,
    translation_request,
)
from server.api.errors import DEEPLX
from server.api.parameters import ParameterRoute
from server.api.schemas.base import Code, Key, OptionalCode, Parameters, list_of_one, none_if_blank
from server.text.languages import resolve_language_code
from server.translation.catalog import AUTO

router = APIRouter(tags=["Extensions"], route_class=ParameterRoute)


class ExtensionParameters(Parameters):
    """The parameters of all extensions, each under the names that it has in one of them."""

    text: StrictStr | list[StrictStr] = Field(
        validation_alias=AliasChoices("text", "texts", "text_list"),
        description="Text to translate, or texts; also `texts` and `text_list`.",
        examples=["The cat sleeps."],
    )
    source: OptionalCode = Field(
        default=None,
        validation_alias=AliasChoices("source_lang", "from", "source"),
        description="Language of the text, detected if absent or `auto`; also `from` and `source`.",
    )
    targets: Annotated[
        list[Code], BeforeValidator(list_of_one), Field(min_length=1, max_length=16)
    ] = Field(
        validation_alias=AliasChoices("target_lang", "to", "destination"),
        description="Language to translate into; also `to`, and `destination`: a list, whose "
        "second language counts if the text is in the first.",
        examples=["de"],
    )
    tag_handling: Annotated[Literal["html", "xml"] | None, BeforeValidator(none_if_blank)] = Field(
        default=None, description="Keep tags, and translate the text between them."
    )
    token: Key = None


@router.post("/imme", summary="Translate texts for Immersive Translate")
@router.post("/kiss", summary="Translate a text or texts for KISS Translator")
@router.post(
    "/hcfy", summary="Translate a text for Hcfy, line by line and with Chinese names of languages"
)
@router.post(f"{DEEPLX}/translate", summary="Translate a text for clients of DeepLX")
async def translate(request: Request, parameters: ExtensionParameters) -> Response:
    path, text, services = request.scope["route"].path, parameters.text, services_of(request)
    texts = text if isinstance(text, list) else text.split("\n") if path == "/hcfy" else [text]
    caller = await admit(request, texts, parameters.token, "text")
    source = code_of(parameters.source or AUTO)
    targets = [code_of(target) for target in parameters.targets]
    if source == AUTO and len(targets) > 1:
        [[guess, *_]] = await language_guesses(request, caller, ["\n".join(texts)])
        source = (
            guess.language
            if guess.confidence and guess.language in services.translator.catalog.sources
            else AUTO
        )
    target = next(
        (code for code in targets if resolve_language_code(code, [source]) is None), targets[0]
    )
    format = "html" if parameters.tag_handling else "text"
    work = translation_request(
        request, caller, texts=tuple(texts), source=source, target=target, format=format
    )
    translations = await services.translator.translate(work)
    answers = [
        (one.text, one.detected.language if one.detected else source) for one in translations
    ]
    return json_response(body(path, text, target, answers))


def body(path: str, text: str | list[str], target: str, answers: list[tuple[str, str]]) -> Any:
    """Returns the answer of an extension to translations with their source languages."""
    translation, source = answers[0]
    match path:
        case "/imme":
            return {
                "translations": [
                    {"detected_source_lang": language, "text": one} for one, language in answers
                ]
            }
        case "/kiss":
            entries = [{"text": one, "src": language} for one, language in answers]
            return entries if isinstance(text, list) else entries[0]
        case "/hcfy":
            named = {"text": text, "from": name_of(source), "to": name_of(target)}
            return named | {"result": [one for one, _ in answers]}
        case _:
            languages = {
                "source_lang": source.upper(),
                "target_lang": target.upper(),
                "method": "Free",
            }
            return {
                "code": 200,
                "id": secrets.randbelow(10**10),
                "data": translation,
                "alternatives": [],
            } | languages


@cache
def chinese_names() -> dict[str, str]:
    rows = Path(__file__).with_name("chinese_names.txt").read_text(encoding="utf-8").splitlines()
    return dict(row.split() for row in rows if not row.startswith("#"))


def code_of(name: str) -> str:
    """Returns the code of a language by its Chinese name; another text is a code itself."""
    return {chinese: code for code, chinese in chinese_names().items()}.get(name, name)


def name_of(code: str) -> str:
    """Returns the Chinese name of a language, or its code if it is not in the table."""
    return chinese_names().get(resolve_language_code(code, chinese_names()) or "", code)
