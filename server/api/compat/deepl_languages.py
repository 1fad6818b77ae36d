"""DeepL-compatible lists of languages, under /v2 and /v3."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import enter, json_response, services_of
from server.api.parameters import ParameterRoute
from server.api.schemas.deepl import DeeplLanguagesParameters, DeeplResourceParameters
from server.glossaries.types import base_language
from server.text.languages import language_name
from server.translation.catalog import ModelCatalog

router = APIRouter(tags=["DeepL"], route_class=ParameterRoute)

VARIANTS = {"en": ("EN-GB", "EN-US"), "pt": ("PT-PT", "PT-BR")}
"""Target languages that DeepL's clients accept only with a region."""
TRANSLATION = ("auto_detection", "formality", "glossary", "tag_handling")
RESOURCES = {"translate_text": TRANSLATION, "translate_document": TRANSLATION, "glossary": ()}
"""The parts of DeepL's interface that are offered, and their features."""


@router.get("/v2/languages", summary="List languages")
@router.post("/v2/languages", include_in_schema=False)
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


@router.get("/v3/languages", summary="List languages and what is offered for each")
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


@router.get(
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
    """Returns the target languages as DeepL's clients name them, in upper case and by region."""
    targets = sorted({target for source in catalog.sources for target in catalog.targets(source)})
    return [code for target in targets for code in VARIANTS.get(target.lower(), (target.upper(),))]


def bcp_47(code: str) -> str:
    """Returns a DeepL code as "en-GB" or "zh-Hans"."""
    base, dash, part = code.partition("-")
    return base.lower() + dash + (part.title() if len(part) == 4 else part.upper())
