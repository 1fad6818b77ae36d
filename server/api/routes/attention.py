"""GET /attention: the attention of a translation as numbers, a picture or a report; and GET
/attention/tensors: every number between two layers."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from model.analysis.tensors import NUMBERS_LIMIT, TENSORS
from model.analysis.types import EVERYTHING, Followed, Kind
from model.search.options import DecodingOptions
from server.access.authentication import Caller
from server.api.attention_formats import (
    NEGOTIATED,
    alignment_method,
    attention_query,
    formatted,
    json_in,
    lists,
    subject_body,
)
from server.api.dependencies import check_texts, deadline, enter, services_of, storage_of
from server.api.openapi import content, errors
from server.api.parameters import ParameterRoute, prefers_html
from server.api.routes.pages import html_page
from server.api.schemas.attention import (
    AttentionAnswer,
    AttentionParameters,
    SubjectAnswer,
    SubjectParameters,
)
from server.api.schemas.base import Answer
from server.errors import InvalidRequest
from server.inspection.attention_view import map_choice, with_effects
from server.inspection.inspector import both_sides
from server.inspection.types import InspectedSentence, InspectionResult
from server.services import Services
from server.translation.types import Storage, TranslationRequest


class AttentionRoute(ParameterRoute):
    """Sends the explorer's page to a browser that names no format. The page shows errors itself."""

    def is_page(self, request: Request) -> bool:
        return prefers_html(request) and "format" not in request.query_params

    async def respond(self, request: Request) -> Response:
        if not self.is_page(request):
            return await super().respond(request)
        embedded = request.query_params.get("embed") == "1"
        return html_page(request, "explorer/index.html", embedded=embedded)


router = APIRouter(tags=["attention"], route_class=AttentionRoute)


@router.get(
    "/attention",
    summary="Attention weights of a translation",
    response_model=AttentionAnswer,
    responses=errors(400, 403, 404, 410, 429, 503, 504)
    | {200: content(*NEGOTIATED[1:], "text/html")},
)
async def attention(
    request: Request, parameters: Annotated[AttentionParameters, Query()]
) -> Response:
    """Inspects an earlier translation (`id`), a new one (`q`, `source`, `target`), or a given one
    (also `translation`)."""
    services = services_of(request)
    accept = request.headers.get("accept", "")
    parameters = attention_query(parameters, accept)
    limit = deadline(request)
    caller = await enter(request, len(parameters.q or ""), parameters.api_key)
    encodings = request.headers.get("accept-encoding", "")
    storage = storage_of(request, caller)
    return await inspected(parameters, services, caller, storage, limit, encodings)


async def inspected(
    parameters: AttentionParameters,
    services: Services,
    caller: Caller,
    storage: Storage,
    deadline: float,
    encodings: str = "",
) -> Response:
    """Returns the answer to parameters that have a format. Raises AttentiveError."""
    subject = await inspected_sentence(parameters, services, caller, storage, deadline)
    everything = parameters.format == "html" or parameters.figures
    sizes = len(subject.pair.source), len(subject.pair.target) + 1
    if parameters.level == "word":
        source, target = both_sides(subject)
        sizes = len(source.words), len(target.words)
    choice = EVERYTHING if everything else map_choice(parameters, subject.leg.model.shape, sizes)
    result = await services.inspector.attend(
        subject,
        deadline,
        choice=choice,
        caller=caller,
        masked_heads=parameters.masked_heads,
        vectors_of=next(iter(parameters.vectors or ()), None),
        method=alignment_method(parameters),
    )
    if parameters.measure == "effect" and parameters.format != "html":
        result = await with_effects(services.inspector, result, deadline, caller=caller)
    size = result.attention.maps.cross.size
    return await services.translator.threads.run(
        caller.name, size, formatted, parameters, result, encodings
    )


async def inspected_sentence(
    parameters: SubjectParameters,
    services: Services,
    caller: Caller,
    storage: Storage,
    deadline: float,
) -> InspectedSentence:
    """Returns the sentence that the parameters name. Raises InvalidRequest if there is none."""
    inspector = services.inspector
    chosen = parameters.hypothesis is not None or bool(parameters.prefix)
    if parameters.translation is not None and parameters.id is None:
        if chosen:
            raise InvalidRequest(
                "hypothesis and prefix choose a translation of the model; leave out translation."
            )
        return given_pair(parameters, services)
    options = DecodingOptions(
        beam_size=parameters.beam_size or services.settings.beam_size,
        masked_heads=parameters.masked_heads or (),
        loop_guard=True,
    )
    if parameters.id is not None:
        subject = await inspector.find(
            parameters.id, sentence=parameters.sentence, leg=parameters.leg
        )
    else:
        q, source, target = named_text(parameters)
        check_texts((q,), services.settings, parameters.beam_size or 1)
        translation_request = TranslationRequest(
            texts=(q,),
            source=source,
            target=target,
            options=dataclasses.replace(options, rerank=services.settings.rerank),
            client=caller.name,
            weight=caller.weight,
            storage=storage,
            deadline=deadline,
        )
        subject = await inspector.translate(
            translation_request, sentence=parameters.sentence, leg=parameters.leg
        )
    if not chosen:
        return subject
    return await inspector.decoded(
        subject,
        options,
        parameters.hypothesis or 0,
        parameters.prefix,
        caller=caller,
        deadline=deadline,
    )


def given_pair(parameters: SubjectParameters, services: Services) -> InspectedSentence:
    """Returns the pair of `q` and `translation`. Raises InvalidRequest."""
    q, source, target = named_text(parameters)
    translation = parameters.translation
    if not translation:
        raise InvalidRequest("translation must not be empty; leave it out for that of the model.")
    check_texts((q,), services.settings, parameters.beam_size or 1)
    check_texts((translation,), services.settings)
    return services.inspector.given(q, translation, source, target)


def named_text(parameters: SubjectParameters) -> tuple[str, str, str]:
    """Returns text, source and target language. Raises InvalidRequest if one is missing."""
    if parameters.q is None or parameters.source is None or parameters.target is None:
        raise InvalidRequest("Give either id, or q with source and target.")
    return parameters.q, parameters.source, parameters.target


NAMES_LIMIT = 1024
"""Longest value of `names`, in characters."""


def read_names(text: Any) -> tuple[str, ...]:
    """Returns the tensors of "name,..." or of a list of such texts. Raises InvalidRequest."""
    text = ",".join(map(str, text)) if isinstance(text, list | tuple) else text
    if not isinstance(text, str) or len(text) > NAMES_LIMIT:
        raise InvalidRequest("names must look like stream,self.query (names of tensors).")
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if any(name not in TENSORS for name in names):
        raise InvalidRequest(f"names must be some of {', '.join(TENSORS)}.")
    return names


class TensorParameters(SubjectParameters):
    part: Kind = Field(default="encoder", description="Attention whose head and layer are shown.")
    layer: int = Field(default=0, ge=0, le=999, description="Layer, counted from 0.")
    head: int = Field(default=0, ge=0, le=999, description="Head, counted from 0.")
    position: int | None = Field(
        default=None,
        ge=0,
        le=99_999,
        description="One of the `rows`, counted from 0; all without it.",
    )
    names: Annotated[
        tuple[str, ...],
        BeforeValidator(read_names),
        WithJsonSchema({"type": "string", "maxLength": NAMES_LIMIT}),
    ] = Field(
        default=(),
        description="Names of tensors, separated by commas; all without it. At most "
        f"{NUMBERS_LIMIT:,} numbers are returned.",
        examples=["self.query,self.key,self.scores"],
    )


class TensorValues(Answer):
    axes: str = Field(
        description="A letter for each axis: r `rows`, k `keys`, D features of a head, d of the "
        "model, f of the feed-forward network, c `candidates`.",
        examples=["rk"],
    )
    shape: list[int]
    formula: str = Field(
        description="The formula of the paper.", examples=["query key^T / sqrt(D)"]
    )
    values: list[float | None] | list[list[float | None]]


class TensorAnswer(SubjectAnswer):
    """Tensors of the forced pass that reads the translation again, on the engine that wrote it."""

    exact: bool = Field(description="As in GET /attention.")
    part: Kind
    layer: int
    head: int
    position: int | None
    rows: list[str] = Field(
        description="Pieces that the layer reads, also those that `position` leaves out."
    )
    keys: list[str] = Field(description="Pieces that the head attends to.")
    source_ids: list[int] = Field(description="Numbers of the source's pieces in the vocabulary.")
    candidates: list[list[str]] | None = Field(
        default=None, description="For each row the pieces of its `logits`, best first."
    )
    tensors: dict[str, TensorValues] = Field(description="By name, in the order of computation.")


tensors_router = APIRouter(tags=["attention"], route_class=ParameterRoute)


@tensors_router.get(
    "/attention/tensors",
    summary="Numbers of one layer and head for a translation",
    response_model=TensorAnswer,
    responses=errors(400, 403, 404, 410, 429, 503, 504),
)
async def tensors(request: Request, parameters: Annotated[TensorParameters, Query()]) -> Response:
    """Runs the engine once more over the tokens of an earlier translation (`id`), a new one (`q`,
    `source`, `target`), or a given one (also `translation`)."""
    services = services_of(request)
    limit = deadline(request)
    caller = await enter(request, len(parameters.q or ""), parameters.api_key)
    subject = await inspected_sentence(
        parameters, services, caller, storage_of(request, caller), limit
    )
    followed = Followed(
        parameters.part, parameters.layer, parameters.head, parameters.position, parameters.names
    )
    result = await services.inspector.attend(
        subject,
        limit,
        choice=followed.choice,
        vectors_of=followed.vectors_of,
        method=None,
        caller=caller,
        masked_heads=parameters.masked_heads,
    )
    encodings = request.headers.get("accept-encoding", "")
    return await services.translator.threads.run(
        caller.name, NUMBERS_LIMIT, _answer, followed, result, encodings
    )


def _answer(followed: Followed, result: InspectionResult, encodings: str) -> Response:
    headers = {"Cache-Control": "private, no-cache"}
    return json_in(encodings, tensor_body(followed, result), headers)


def tensor_body(followed: Followed, result: InspectionResult) -> dict[str, Any]:
    subject, maps = result.subject, result.attention.maps
    queries, keys = result.sides(followed.part)
    values = maps.tensors or {}
    body: dict[str, Any] = {
        **subject_body(subject),
        "exact": result.exact,
        "part": followed.part,
        "layer": followed.layer,
        "head": followed.head,
        "position": followed.position,
        "rows": (queries if followed.side == "encoder" else result.decoder_input).pieces,
        "keys": keys.pieces,
        "source_ids": subject.pair.source,
    }
    if "logits" in values:
        piece = subject.leg.model.tokenizer.piece
        ids = (
            maps.candidate_ids
            if followed.position is None
            else maps.candidate_ids[followed.position, None]
        )
        body["candidates"] = [[piece(token) for token in row] for row in ids.tolist()]
    shown = {}
    for name, numbers in values.items():
        tensor = TENSORS[name]
        shown[name] = {
            "axes": tensor.axes,
            "shape": numbers.shape,
            "formula": tensor.formula,
            "values": lists(numbers),
        }
    return body | {"tensors": shown}
