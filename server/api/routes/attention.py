"""GET /attention: the weights behind a translation as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.options import DecodingOptions
from server.api import parameters
from server.api.context import caller, json_response, services_of
from server.api.documentation import documented_query
from server.api.routes.translate import check_texts
from server.api.schemas import OptionalInt, Schema
from server.errors import InvalidRequest
from server.inspection import Look, Token
from server.translation import TranslationRequest
from server.worker.protocol import Maps

router = APIRouter(tags=["look inside"])
Weights = NDArray[np.float32]
KINDS: tuple[Literal["cross", "encoder", "decoder"], ...] = ("cross", "encoder", "decoder")


class AttentionParameters(Schema):
    id: StrictStr | None = Field(default=None, max_length=64, description="Id of a translation that was served.")
    q: StrictStr | None = Field(
        default=None, description="Text to look at, instead of an id.", examples=["The cat sleeps."]
    )
    source: StrictStr | None = Field(
        default=None, max_length=32, description="Language of q, or `auto`.", examples=["en"]
    )
    target: StrictStr | None = Field(default=None, max_length=32, description="Language to look into.", examples=["de"])
    translation: StrictStr | None = Field(default=None, description="A translation of q, instead of the model's own.")
    sentence: int = Field(default=0, ge=0, description="Which sentence of the text, counted from 0.")
    leg: int = Field(default=0, ge=0, description="Which step of a way through a pivot language, counted from 0.")
    kind: Literal["cross", "encoder", "decoder", "all"] = Field(default="all", description="Which maps.")
    layer: Annotated[int | Literal["all"], BeforeValidator(parameters.number_or_word)] = Field(
        default="all", description="One layer, counted from 0, or `all`."
    )
    head: Annotated[int | Literal["all", "mean"], BeforeValidator(parameters.number_or_word)] = Field(
        default="all", description="One head, counted from 0, `mean` over the heads, or `all`."
    )
    beam_size: OptionalInt = Field(default=None, ge=1, le=32, description="Beam width for q.")


@router.get("/attention", **documented_query("Attention behind a translation", AttentionParameters))
async def attention(request: Request) -> Response:
    asked = parameters.validated(AttentionParameters, parameters.pairs(request.scope["query_string"]))
    return json_response(answer(asked, await look(asked, request)))


async def look(asked: AttentionParameters, request: Request) -> Look:
    """The one sentence that the parameters point at, with its maps. Raises InvalidRequest where they point at
    nothing."""
    services = services_of(request)
    deadline = parameters.deadline(request, services.settings.timeout_seconds)
    if asked.id is not None:
        return await services.inspector.served(asked.id, sentence=asked.sentence, leg=asked.leg, deadline=deadline)
    if asked.q is None or asked.source is None or asked.target is None:
        raise InvalidRequest("Give either id, or q with source and target.")
    check_texts((asked.q,), services.settings)
    if asked.translation is not None:
        check_texts((asked.translation,), services.settings)
        return await services.inspector.forced(
            asked.q, asked.translation, asked.source, asked.target, deadline=deadline
        )
    wanted = TranslationRequest(
        texts=(asked.q,),
        source=asked.source,
        target=asked.target,
        options=DecodingOptions(beam_size=asked.beam_size or services.settings.beam_size),
        client=caller(request),
        deadline=deadline,
    )
    return await services.inspector.fresh(wanted, sentence=asked.sentence, leg=asked.leg)


def answer(asked: AttentionParameters, found: Look) -> dict[str, Any]:
    """The body of a 200. Maps are nested lists [layer][head][query][key], also where one layer or head was chosen."""
    kinds = KINDS if asked.kind == "all" else (asked.kind,)
    maps: dict[str, Any] = {kind: chosen(weights(found.attended.maps, kind), asked) for kind in kinds}
    return {
        "id": found.id,
        "model": found.leg.model.name,
        "language": {"source": found.leg.source, "target": found.leg.target},
        "sentence": found.sentence,
        "sentences": found.sentences,
        "leg": found.leg_number,
        "legs": found.legs,
        "source": side(found.source_text, found.source),
        "target": side(found.target_text, found.target) | {"scores": found.attended.token_scores},
        "decoder_input": {"pieces": [token.piece for token in found.decoder_input]},
        "layers": {kind: numbers(weights(found.attended.maps, kind).shape[0], asked.layer) for kind in kinds},
        "heads": {kind: numbers(weights(found.attended.maps, kind).shape[1], asked.head) for kind in kinds},
        **maps,
    }


def side(text: str, tokens: tuple[Token, ...]) -> dict[str, Any]:
    """A sentence with its pieces and their places (start, end) in characters of the sentence."""
    return {
        "text": text,
        "pieces": [token.piece for token in tokens],
        "offsets": [(token.start, token.end) for token in tokens],
    }


def weights(maps: Maps, kind: Literal["cross", "encoder", "decoder"]) -> Weights:
    """One kind of map as an array, (L, H, T, S), (L, H, S, S) or (L, H, T, T)."""
    data, shape = {
        "cross": (maps.cross, maps.cross_shape),
        "encoder": (maps.encoder, maps.encoder_shape),
        "decoder": (maps.decoder, maps.decoder_shape),
    }[kind]
    return np.frombuffer(data, dtype=np.float32).reshape(shape)


def chosen(maps: Weights, asked: AttentionParameters) -> Weights:
    """The layers and heads asked for, still with four axes."""
    layers, heads = maps.shape[:2]
    for name, value, count in (("layer", asked.layer, layers), ("head", asked.head, heads)):
        if isinstance(value, int) and value >= count:
            raise InvalidRequest(f"{name} must be between 0 and {count - 1} for this model.")
    if isinstance(asked.layer, int):
        maps = maps[asked.layer : asked.layer + 1]
    if asked.head == "mean":
        maps = maps.mean(axis=1, keepdims=True)
    elif isinstance(asked.head, int):
        maps = maps[:, asked.head : asked.head + 1]
    return np.ascontiguousarray(maps)


def numbers(count: int, choice: int | str) -> list[int | str]:
    """What the entries of an axis are: numbers counted from 0, or "mean"."""
    return list(range(count)) if choice == "all" else [choice]
