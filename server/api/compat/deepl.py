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
from server.api.schemas.deepl import (
    DeeplCredentials,
    DeeplLanguagesParameters,
    DeeplParameters,
    DeeplResourceParameters,
)
from server.errors import InvalidRequest
from server.glossaries.types import base_language
from server.services import default_options
from server.text.languages import language_name
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


languages_router = APIRouter(tags=["DeepL"], route_class=ParameterRoute)

VARIANTS = {"en": ("EN-GB", "EN-US"), "pt": ("PT-PT", "PT-BR")}
"""Targets that DeepL's clients accept only with a region."""
TRANSLATION = ("auto_detection", "formality", "glossary", "tag_handling")
RESOURCES = {"translate_text": TRANSLATION, "translate_document": TRANSLATION, "glossary": ()}
"""The offered parts of DeepL's interface, and their features."""


@languages_router.get("/v2/languages", summary="List languages")
@languages_router.post("/v2/languages", include_in_schema=False)
async def languages(
    request: Request, parameters: Annotated[DeeplLanguagesParameters, Query()]
) -> Response:
    """The official client sends the parameter as the form of a GET request."""
    await enter(request, 0, parameters.auth_key)
    catalog = services_of(request).translator.catalog
    if parameters.type == "source":
        return json_response(
            [
                {"language": code.upper(), "name": language_name(bcp_47(code))}
                for code in catalog.sources
            ]
        )
    return json_response(
        [
            {
                "language": code,
                "name": language_name(bcp_47(code)),
                "supports_formality": catalog.knows_formality(catalog.target(code)),
            }
            for code in target_codes(catalog)
        ]
    )


@languages_router.get("/v3/languages", summary="List languages and what is offered for each")
async def languages_of_resource(
    request: Request, parameters: Annotated[DeeplResourceParameters, Query()]
) -> Response:
    """A resource that is not offered has no languages."""
    await enter(request, 0, parameters.auth_key)
    catalog = services_of(request).translator.catalog
    sources, targets = [code.upper() for code in catalog.sources], target_codes(catalog)
    offered = parameters.resource in RESOURCES
    return json_response(
        [
            {
                "lang": bcp_47(code),
                "name": language_name(bcp_47(code)),
                "usable_as_source": code in sources,
                "usable_as_target": code in targets,
                "status": "stable",
                "features": {
                    name: {"status": "stable"}
                    for name in RESOURCES[parameters.resource]
                    if (name != "auto_detection" or code in sources)
                    and (
                        name != "formality"
                        or (code in targets and catalog.knows_formality(catalog.target(code)))
                    )
                },
            }
            for code in (sorted({*sources, *targets}) if offered else ())
        ]
    )


@languages_router.get(
    "/v2/glossary-language-pairs",
    summary="List the language pairs of glossaries: those that are served",
)
async def glossary_language_pairs(request: Request) -> Response:
    catalog = services_of(request).translator.catalog
    routes = {(source, target) for source in catalog.sources for target in catalog.targets(source)}
    pairs = sorted({(base_language(source), base_language(target)) for source, target in routes})
    supported = [
        {"source_lang": source, "target_lang": target}
        for source, target in pairs
        if source != target
    ]
    return json_response({"supported_languages": supported})


def target_codes(catalog: ModelCatalog) -> list[str]:
    """Returns the targets as DeepL's clients name them, in upper case and by region."""
    targets = sorted({target for source in catalog.sources for target in catalog.targets(source)})
    return [code for target in targets for code in VARIANTS.get(target.lower(), (target.upper(),))]


def bcp_47(code: str) -> str:
    """Returns a DeepL code as "en-GB" or "zh-Hans"."""
    base, dash, part = code.partition("-")
    return base.lower() + dash + (part.title() if len(part) == 4 else part.upper())
