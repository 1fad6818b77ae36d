"""LibreTranslate's GET /languages, POST /detect, GET /frontend/settings and POST /suggest."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import admit, json_response, language_guesses, services_of
from server.api.openapi import WORK, errors
from server.api.parameters import ParameterRoute
from server.api.routes.operation import is_operator
from server.api.schemas.base import Answer, ErrorAnswer, Key, Parameters
from server.documents.formats import SUFFIXES
from server.errors import Forbidden
from server.text.language_id import DetectedLanguage
from server.text.languages import language_name
from server.translation.catalog import AUTO, ModelCatalog

router = APIRouter(tags=["languages"], route_class=ParameterRoute)


class DetectParameters(Parameters):
    q: StrictStr = Field(
        description="Text whose language is to be detected.", examples=["Bonjour tout le monde"]
    )
    api_key: Key = None


class Language(Answer):
    code: str
    name: str
    targets: list[str] = Field(
        description="Languages that texts in this one can be translated into."
    )
    models: dict[str, str] = Field(
        description="Name of the model for each of these languages. One that is left out is "
        "reached through another language."
    )
    scores: dict[str, dict[str, float]] = Field(
        description="BLEU (bleu) and COMET (comet) of these models on FLORES, where their "
        "publishers state them."
    )
    formality: list[str] = Field(
        description="Targets whose model knows forms of address, for the parameter `formality`."
    )


@router.get(
    "/languages", summary="List the languages that are served", response_model=list[Language]
)
@router.post("/languages", include_in_schema=False)  # as libretranslatepy 2.1.1 asks
async def languages(request: Request) -> Response:
    catalog = services_of(request).translator.catalog
    return json_response(
        [
            {**named(source), "targets": catalog.targets(source), **models_of(catalog, source)}
            for source in catalog.sources
        ],
    )


def models_of(catalog: ModelCatalog, source: str) -> dict[str, Any]:
    """Returns the models of the directions that need only one, their scores, and the targets with
    forms of address."""
    serving = {target: catalog.direct(source, target) for target in catalog.targets(source)}
    models = {target: model for target, model in serving.items() if model}
    return {
        "models": {target: model.name for target, model in models.items()},
        "scores": {target: model.scores for target, model in models.items() if model.scores},
        "formality": [target for target in serving if has_forms(catalog, source, target)],
    }


def has_forms(catalog: ModelCatalog, source: str, target: str) -> bool:
    """Returns whether the model that writes a target language knows its forms of address."""
    legs = catalog.route(source, target) if catalog.knows_formality(target) else ()
    return bool(legs) and target in legs[-1].model.formality


@router.post(
    "/detect",
    summary="Detect the language of a text",
    response_model=list[DetectedLanguage],
    responses=errors(*WORK),
)
async def detect(request: Request, parameters: DetectParameters) -> Response:
    """The answer lists the candidates, the most probable first: every served language, and others
    that are likely."""
    caller = await admit(request, [parameters.q], parameters.api_key)
    [guesses] = await language_guesses(request, caller, [parameters.q])
    return json_response(
        [{"confidence": guess.confidence, "language": guess.language} for guess in guesses]
    )


@router.get(
    "/frontend/settings",
    summary="Limits and languages for a user interface",
    response_model=dict[str, Any],
)
async def frontend_settings(request: Request) -> Response:
    services = services_of(request)
    catalog, settings = services.translator.catalog, services.settings
    body: dict[str, Any] = {
        "charLimit": settings.char_limit,
        "frontendTimeout": 1000,
        "apiKeys": services.authenticator.uses_keys,
        "keyRequired": services.authenticator.key_required,
        "suggestions": False,
        "filesTranslation": True,
        "manageModels": is_operator(request),
        "supportedFilesFormat": SUFFIXES,
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": named("en" if "en" in catalog.languages else catalog.languages[0]),
        },
    }
    return json_response(body)


@router.post(
    "/suggest",
    summary="Reject a suggested translation",
    status_code=403,
    response_model=ErrorAnswer,
    response_description="Always: the server does not store suggestions.",
)
async def suggest() -> Response:
    """LibreTranslate stores better translations that users suggest. This server does not."""
    raise Forbidden("Suggestions are disabled on this server.")


def named(language: str) -> dict[str, Any]:
    return {"code": language, "name": language_name(language)}
