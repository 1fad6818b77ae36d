"""DeepL-compatible translation under /v2, for DeepL's official client libraries.

A parameter that would change the translation has its effect or is rejected; docs/clients.md has the
table.
"""

from __future__ import annotations

import html
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from model.symbols import FORMAL, form_of_address
from server.api.dependencies import (
    check_texts,
    enter,
    glossary_terms,
    json_response,
    services_of,
    translation_request,
)
from server.api.parameters import ParameterRoute
from server.api.routes.translate import chosen_rows
from server.api.schemas.base import SYMBOLS, address_form
from server.api.schemas.deepl import DeeplParameters
from server.api.schemas.glossaries import DeeplCredentials
from server.errors import InvalidRequest
from server.services import default_options
from server.text.segmentation import Split
from server.text.syntax.markup import markup_tokens
from server.text.syntax.xml import Rules
from server.text.tagged import CDATA, CDATA_END
from server.translation.catalog import AUTO, ModelCatalog

router = APIRouter(prefix="/v2", tags=["DeepL"], route_class=ParameterRoute)

UNLIMITED = 10**12
"""Character limit that DeepL reports for accounts without a limit."""
RERANK = {"quality_optimized": True, "prefer_quality_optimized": True, "latency_optimized": False}
SPLITS: dict[str, Split] = {"0": "none", "1": "all", "nonewlines": "punctuation"}


@router.get("/translate", include_in_schema=False)
@router.post("/translate", summary="Translate texts")
async def translate(request: Request, parameters: DeeplParameters) -> Response:
    services = services_of(request)
    if parameters.strict and parameters.context:
        raise InvalidRequest("'context' is not supported: sentences are translated one by one.")
    if not parameters.text:
        raise InvalidRequest("Parameter 'text' not specified.")
    texts = tuple(parameters.text)
    rerank = RERANK[parameters.model_type] if parameters.model_type else None
    if any(texts):
        check_texts(texts, services.settings, chosen_rows(0, 1, bool(rerank), "mark"))
    billed = [billed_characters(text, parameters.tag_handling) for text in texts]
    caller = await enter(request, sum(billed), parameters.auth_key)
    glossary = await glossary_terms(
        request, caller, parameters.glossaries, parameters.source_lang, parameters.target_lang
    )
    translator = services.translator
    translations = await translator.translate(
        translation_request(
            request,
            caller,
            texts=texts,
            source=parameters.source_lang or AUTO,
            target=parameters.target_lang,
            format=parameters.tag_handling or "text",
            markup=Rules(
                parameters.ignore_tags,
                parameters.splitting_tags,
                parameters.non_splitting_tags,
                parameters.outline_detection is not False,
            ),
            split=SPLITS[
                parameters.split_sentences or ("nonewlines" if parameters.tag_handling else "1")
            ],
            options=default_options(services.settings, rerank=rerank),
            glossary=glossary,
            **address_form(parameters.formality, parameters.strict),
        )
    )
    results = [translation.text for translation in translations]
    catalog = translator.catalog
    named = catalog.source(parameters.source_lang) if parameters.source_lang else ""
    answers = []
    for translation, result, characters in zip(translations, results, billed, strict=True):
        source = translation.detected.language if translation.detected else named
        answer = {
            "detected_source_language": source.upper(),
            "text": result,
            "billed_characters": characters,
        }
        if parameters.model_type:
            reranked = any(leg.reranked for leg in translation.legs)
            answer["model_type_used"] = "quality_optimized" if reranked else "latency_optimized"
        if used := formality_used(parameters, result, catalog):
            answer["formality_used"] = used
        answers.append(answer)
    return json_response({"translations": answers})


def billed_characters(text: str, tag_handling: str | None) -> int:
    """Returns the number of characters of a text without its markup."""
    if tag_handling is None:
        return len(text)
    parts = markup_tokens(text, xml=tag_handling == "xml")
    words = [part if isinstance(part, str) else section_text(part.raw) for part in parts]
    return sum(len(html.unescape(part)) for part in words)


def section_text(raw: str) -> str:
    """Returns the text of a CDATA section; other markup has none."""
    return raw[len(CDATA) : -len(CDATA_END)] if raw.startswith(CDATA) else ""


def formality_used(parameters: DeeplParameters, result: str, catalog: ModelCatalog) -> str | None:
    """Returns the form of address of a translation if it is not the requested one: "default" where
    the model knows none."""
    if (requested := SYMBOLS.get(parameters.formality or "")) is None:
        return None
    target = catalog.target(parameters.target_lang)
    if not catalog.knows_formality(target):
        return "default"
    address = form_of_address(result, target)
    return None if address in (None, requested) else "more" if address == FORMAL else "less"


@router.get(
    "/usage",
    summary="Characters sent with this key, or without a key; with quotas, those of the one with "
    "the fewest left",
)
@router.post("/usage", include_in_schema=False)
async def usage(request: Request, parameters: Annotated[DeeplCredentials, Query()]) -> Response:
    caller = await enter(request, 0, parameters.auth_key)
    counts = services_of(request).rate_limiter.usage
    quotas = await counts.quotas(caller.key) if caller.key else []
    if not quotas:
        return json_response(
            {"character_count": await counts.read(caller.owner), "character_limit": UNLIMITED}
        )
    quota = min(quotas, key=lambda quota: quota.limit - quota.used)
    return json_response(
        {"character_count": quota.used, "character_limit": quota.limit, "end_time": quota.reset}
    )
