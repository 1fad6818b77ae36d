"""Which languages there are, and which one a text is in."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api import parameters
from server.api.dependencies import enter, json_response, services_of
from server.api.openapi import documented
from server.api.routes.translate import check_texts
from server.api.schemas import DetectedLanguage, DetectParameters, Language, SuggestAnswer, SuggestParameters
from server.documents.formats import SUFFIXES
from server.errors import Forbidden
from server.text.language_names import language_name
from server.translation.catalog import AUTO

router = APIRouter(tags=["languages"])


@router.get("/languages", **documented("List the languages that are served", None, list[Language], ()))
async def languages(request: Request) -> Response:
    catalog = services_of(request).translator.catalog
    return json_response(
        [{**named(language), "targets": catalog.targets(language)} for language in catalog.sources],
    )


@router.post("/detect", **documented("Find out which language a text is in", DetectParameters, list[DetectedLanguage]))
async def detect(request: Request) -> Response:
    services = services_of(request)
    asked = await parameters.read(request, DetectParameters)
    check_texts((asked.q,), services.settings)
    await enter(request, len(asked.q), asked.api_key)
    guesses = await asyncio.to_thread(services.translator.detect, asked.q)
    return json_response(guesses)


@router.get("/frontend/settings", summary="Limits and languages for a user interface")
async def frontend_settings(request: Request) -> Response:
    services = services_of(request)
    catalog, settings = services.translator.catalog, services.settings
    body: dict[str, Any] = {
        "charLimit": settings.char_limit,
        "frontendTimeout": 1000,
        "apiKeys": services.authenticator.uses_keys,
        "keyRequired": services.authenticator.key_required,
        "suggestions": services.suggestions is not None,
        "filesTranslation": True,
        "supportedFilesFormat": SUFFIXES,
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": named("en" if "en" in catalog.languages else catalog.languages[0]),
        },
    }
    return json_response(body)


@router.post("/suggest", **documented("Suggest a better translation", SuggestParameters, SuggestAnswer))
async def suggest(request: Request) -> Response:
    services = services_of(request)
    asked = await parameters.read(request, SuggestParameters)
    if services.suggestions is None:
        raise Forbidden("This server takes no suggestions.")
    check_texts((asked.q, asked.s), services.settings)
    await enter(request, 0, asked.api_key)
    catalog = services.translator.catalog
    source, target = catalog.source(asked.source), catalog.target(asked.target)
    await asyncio.to_thread(services.suggestions.add, asked.q, asked.s, source, target)
    return json_response({"success": True})


def named(language: str) -> dict[str, Any]:
    return {"code": language, "name": language_name(language)}
