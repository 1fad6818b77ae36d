"""DeepL-compatible translation under /v2, for DeepL's official client libraries.

A parameter that would change the translation has its effect or is rejected; docs/clients.md has the table.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from server.api.compat.xml_tags import TagRules, mask
from server.api.dependencies import (
    check_texts,
    enter,
    glossary_terms,
    header_key,
    json_response,
    reader_languages,
    services_of,
    translation_request,
)
from server.api.parameters import ParameterRoute
from server.api.routes.translate import chosen_rows
from server.api.schemas.deepl import (
    DeeplLanguagesParameters,
    DeeplParameters,
    DeeplResourceParameters,
    DeeplUsageParameters,
)
from server.errors import InvalidRequest
from server.glossaries.types import base_language
from server.services import default_options
from server.text.languages import language_name
from server.text.segmentation import Split
from server.translation.catalog import AUTO, ModelCatalog
from server.translation.types import Formality

router = APIRouter(prefix="/v2", tags=["DeepL"], route_class=ParameterRoute)
v3_router = APIRouter(prefix="/v3", tags=["DeepL"], route_class=ParameterRoute)

VARIANTS = {"en": ("EN-GB", "EN-US"), "pt": ("PT-PT", "PT-BR")}
"""Target languages that DeepL's clients accept only with a region."""
SOURCE, TARGET = "needs_source_support", "needs_target_support"
TRANSLATION = {
    "auto_detection": (SOURCE,),
    "formality": (TARGET,),
    "glossary": (SOURCE, TARGET),
    "tag_handling": (SOURCE, TARGET),
}
RESOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "translate_text": TRANSLATION,
    "translate_document": TRANSLATION,
    "glossary": {},
}
"""The parts of DeepL's interface that are offered, their features, and the languages that must have each."""
UNLIMITED = 10**12
"""Character limit that DeepL reports for accounts without a limit."""
FORMALITY: dict[str | None, Formality] = {
    "more": "formal",
    "prefer_more": "formal",
    "less": "informal",
    "prefer_less": "informal",
}
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
    caller = await enter(request, sum(map(len, texts)), parameters.auth_key)
    glossary = await glossary_terms(
        request, caller, parameters.glossaries, parameters.source_lang, parameters.target_lang
    )
    rules = TagRules(
        parameters.tag_handling == "xml",
        frozenset(tag.lower() for tag in parameters.ignore_tags or ()),
        frozenset(tag.lower() for tag in parameters.splitting_tags or ()),
        frozenset(tag.lower() for tag in parameters.non_splitting_tags or ()),
        parameters.outline_detection is not False,
    )
    masks = [mask(text, rules) for text in texts] if parameters.tag_handling else []
    translations = await services.translator.translate(
        translation_request(
            request,
            caller,
            texts=tuple(masked.text for masked in masks) or texts,
            source=parameters.source_lang or AUTO,
            target=parameters.target_lang,
            format="html" if parameters.tag_handling else "text",
            split=SPLITS[parameters.split_sentences or ("nonewlines" if parameters.tag_handling else "1")],
            options=default_options(services.settings, rerank=rerank),
            accepted=reader_languages(request),
            glossary=glossary,
            formality=FORMALITY.get(parameters.formality),
            formality_required=parameters.strict or parameters.formality in ("more", "less"),
        )
    )
    results = [translation.text for translation in translations]
    if masks:
        results = [masked.restore(text, rules.xml) for masked, text in zip(masks, results, strict=True)]
    named = services.translator.catalog.source(parameters.source_lang) if parameters.source_lang else ""
    catalog, preferred = services.translator.catalog, (parameters.formality or "").startswith("prefer_")
    formality_ignored = preferred and not catalog.knows_formality(catalog.target(parameters.target_lang))
    answers = []
    for translation, result, text in zip(translations, results, texts, strict=True):
        source = translation.detected.language if translation.detected else named
        answer = {"detected_source_language": source.upper(), "text": result, "billed_characters": len(text)}
        if parameters.model_type:
            reranked = any(leg.reranked for leg in translation.legs)
            answer["model_type_used"] = "quality_optimized" if reranked else "latency_optimized"
        if formality_ignored:
            answer["formality_used"] = "default"
        answers.append(answer)
    return json_response({"translations": answers})


@router.get("/languages", summary="List languages")
@router.post("/languages", include_in_schema=False)
async def languages(request: Request, parameters: Annotated[DeeplLanguagesParameters, Query()]) -> Response:
    """The official client sends the parameter as the form of a GET request."""
    await enter(request, 0, parameters.auth_key)
    catalog = services_of(request).translator.catalog
    if parameters.type == "source":
        return json_response([{"language": code.upper(), "name": name_of(code)} for code in catalog.sources])
    return json_response(
        [
            {
                "language": code,
                "name": name_of(code),
                "supports_formality": catalog.knows_formality(catalog.target(code)),
            }
            for code in target_codes(catalog)
        ]
    )


@v3_router.get("/languages", summary="List languages and what is offered for each")
async def languages_of_resource(request: Request, parameters: Annotated[DeeplResourceParameters, Query()]) -> Response:
    """A resource that is not offered has no languages."""
    await enter(request, 0, parameters.auth_key)
    catalog = services_of(request).translator.catalog
    if parameters.resource not in RESOURCES:
        return json_response([])
    sources, targets = [code.upper() for code in catalog.sources], target_codes(catalog)
    listed = []
    for code in sorted({*sources, *targets}):
        offered = {name for name in RESOURCES[parameters.resource] if name != "formality"}
        if code not in sources:
            offered.discard("auto_detection")
        if code in targets and catalog.knows_formality(catalog.target(code)):
            offered |= {"formality"} & RESOURCES[parameters.resource].keys()
        base, dash, region = code.partition("-")
        listed.append(
            {
                "lang": base.lower() + dash + (region.title() if len(region) == 4 else region),
                "name": name_of(code),
                "usable_as_source": code in sources,
                "usable_as_target": code in targets,
                "status": "stable",
                "features": {name: {"status": "stable"} for name in sorted(offered)},
            }
        )
    return json_response(listed)


@v3_router.get("/languages/resources", summary="List what is offered in some languages only")
async def resources(request: Request, parameters: Annotated[DeeplUsageParameters, Query()]) -> Response:
    await enter(request, 0, parameters.auth_key)
    return json_response(
        [
            {
                "name": name,
                "features": [{"name": feature} | dict.fromkeys(needs, True) for feature, needs in features.items()],
            }
            for name, features in RESOURCES.items()
        ]
    )


@router.get("/usage", summary="Characters sent with this key, or without a key")
@router.post("/usage", include_in_schema=False)
async def usage(request: Request, parameters: Annotated[DeeplUsageParameters, Query()]) -> Response:
    key = parameters.auth_key or header_key(request)
    caller = await enter(request, 0, key)
    used = await services_of(request).rate_limiter.usage.read(caller.owner)
    return json_response({"character_count": used, "character_limit": UNLIMITED})


@router.get("/glossary-language-pairs", summary="List the language pairs of glossaries: those that are served")
async def glossary_language_pairs(request: Request) -> Response:
    catalog = services_of(request).translator.catalog
    routes = {(source, target) for source in catalog.sources for target in catalog.targets(source)}
    pairs = sorted({(base_language(source), base_language(target)) for source, target in routes})
    supported = [{"source_lang": source, "target_lang": target} for source, target in pairs if source != target]
    return json_response({"supported_languages": supported})


def target_codes(catalog: ModelCatalog) -> list[str]:
    """Returns the target languages as DeepL's clients name them, in upper case and by region."""
    targets = sorted({target for source in catalog.sources for target in catalog.targets(source)})
    return [code for target in targets for code in VARIANTS.get(target.lower(), (target.upper(),))]


def name_of(code: str) -> str:
    """Returns the English name of a DeepL code. The table of names has regions as pt-BR and scripts as zh-Hans."""
    base, _, region = code.lower().partition("-")
    plain = language_name(base)
    names = [language_name(f"{base}-{part}") for part in (region.upper(), region.title())] if region else []
    return next((name for name in names if name and name != plain), plain)
