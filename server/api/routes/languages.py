"""Which languages there are, and which one a text is in."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api import parameters
from server.api.context import enter, json_response, services_of
from server.api.documentation import documented
from server.api.routes.translate import check_texts
from server.api.schemas import DetectedLanguage, DetectParameters, Language
from server.catalog import AUTO
from server.language_names import language_name

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
        "apiKeys": services.access.uses_keys,
        "keyRequired": services.access.key_required,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": named("en" if "en" in catalog.languages else catalog.languages[0]),
        },
    }
    return json_response(body)


@router.post("/suggest", summary="Suggest a better translation (switched off)")
async def suggest() -> Response:
    return json_response({"error": "This server takes no suggestions."}, 403)


def named(language: str) -> dict[str, Any]:
    return {"code": language, "name": language_name(language)}
