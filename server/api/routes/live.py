"""GET and POST /live: translation of words that are still being typed or spoken."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BeforeValidator, Field, StrictBool, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.analysis.attention_alignment import Word
from server.api.attention_formats import text_pieces
from server.api.dependencies import check_texts, deadline, enter, json_response, services_of
from server.api.openapi import WORK, errors
from server.api.parameters import ParameterRoute
from server.api.routes.pages import html_page
from server.api.schemas.attention import TextPieces
from server.api.schemas.base import Answer, Code, Key, Parameters, list_of_one
from server.inspection.live import LiveTranslation, translate_live


class LiveParameters(Parameters):
    q: StrictStr = Field(
        description="The words so far; only the first sentence is translated.",
        examples=["The cat sleeps in"],
    )
    source: Code = Field(description="Language of `q`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    prefix: Annotated[list[StrictStr], BeforeValidator(list_of_one)] = Field(
        default=[],
        max_length=1024,
        description="The pieces that were given out for this sentence (`prefix` of the last "
        "answer).",
    )
    wait: int = Field(
        default=2,
        ge=0,
        le=100,
        description="Nothing is given out that comes from the last `wait` words. Fewer are faster "
        "and less exact.",
    )
    final: StrictBool = Field(default=False, description="Whether no more words follow.")
    api_key: Key = None


class LiveAnswer(Answer):
    """What will not change any more is the beginning of `target.text` up to `kept`."""

    model: str
    source: TextPieces = Field(description="The first sentence of `q`.")
    target: TextPieces = Field(description="Its translation, as far as the words go.")
    words: dict[str, list[Word]] = Field(description="The words of `source` and `target`.")
    aligned: list[int | None] = Field(
        description="The source word that each word of the translation comes from, null for the "
        "end of sentence."
    )
    kept: int = Field(description="Number of characters of `target.text` that are given out.")
    prefix: list[str] = Field(description="Their pieces, to be sent with the next words.")
    complete: bool = Field(
        description="Whether the sentence has ended, so that all of the translation is given out."
    )
    consumed: int = Field(
        description="Number of characters of `q` up to the end of a complete sentence, else 0."
    )


router = APIRouter(tags=["attention"], route_class=ParameterRoute)


@router.get("/live", include_in_schema=False)
async def page(request: Request) -> Response:
    return html_page(request, "live/index.html")


@router.post(
    "/live",
    summary="Translation of the words so far",
    response_model=LiveAnswer,
    responses=errors(*WORK),
)
async def live(request: Request, parameters: LiveParameters) -> Response:
    """Returns what will not change any more of the translation of an unfinished sentence. The next
    request has more words and the `prefix` of this answer; after a complete sentence it begins
    behind the `consumed` characters, without a prefix."""
    services = services_of(request)
    check_texts((parameters.q,), services.settings)
    limit = deadline(request)
    caller = await enter(request, len(parameters.q), parameters.api_key)
    return json_response(
        live_answer(
            await translate_live(
                services.inspector,
                parameters.q,
                parameters.source,
                parameters.target,
                prefix=parameters.prefix,
                wait=parameters.wait,
                final=parameters.final,
                caller=caller,
                deadline=limit,
            )
        )
    )


def live_answer(live: LiveTranslation) -> dict[str, Any]:
    result, target = live.result, live.result.target
    return {
        "model": result.subject.leg.model.name,
        "source": text_pieces(result.source),
        "target": text_pieces(target),
        "words": {"source": result.source.words, "target": target.words},
        "aligned": live.aligned,
        "kept": len(target.text[: target.offsets[live.kept - 1][1]].rstrip()) if live.kept else 0,
        "prefix": target.pieces[: live.kept],
        "complete": live.complete,
        "consumed": live.span[1] if live.complete else 0,
    }
