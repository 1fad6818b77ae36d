"""DeepL-compatible lists of languages, under /v2 and /v3."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import enter, json_response, services_of
from server.api.parameters import ParameterRoute
from server.api.schemas.deepl import DeeplLanguagesParameters, DeeplResourceParameters, DeeplUsageParameters
from server.glossaries.types import base_language
from server.text.languages import language_name
from server.translation.catalog import ModelCatalog

router = APIRouter(tags=["DeepL"], route_class=ParameterRoute)

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


@router.get("/v2/languages", summary="List languages")
@router.post("/v2/languages", include_in_schema=False)
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


@router.get("/v3/languages", summary="List languages and what is offered for each")
async def languages_of_resource(request: Request, parameters: Annotated[DeeplResourceParameters, Query()]) -> Response:
    """A resource that is not offered has no languages."""
    await enter(request, 0, parameters.auth_key)
    catalog = services_of(request).translator.catalog
    if parameters.resource not in RESOURCES:
        return json_response([])
    sources, targets = [code.upper() for code in catalog.sources], target_codes(catalog)
    listed = []
    for code in sorted({*sources, *targets}):
        lacking = {
            "auto_detection": code not in sources,
            "formality": code not in targets or not catalog.knows_formality(catalog.target(code)),
        }
        base, dash, region = code.partition("-")
        listed.append(
            {
                "lang": base.lower() + dash + (region.title() if len(region) == 4 else region),
                "name": name_of(code),
                "usable_as_source": code in sources,
                "usable_as_target": code in targets,
                "status": "stable",
                "features": {
                    name: {"status": "stable"} for name in RESOURCES[parameters.resource] if not lacking.get(name)
                },
            }
        )
    return json_response(listed)


@router.get("/v3/languages/resources", summary="List what is offered in some languages only")
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


@router.get("/v2/glossary-language-pairs", summary="List the language pairs of glossaries: those that are served")
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
