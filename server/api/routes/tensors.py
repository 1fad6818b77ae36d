"""GET /attention/tensors: every number between two layers of a translation."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from model.analysis.tensors import NUMBERS_LIMIT, TENSORS
from model.analysis.types import Followed, Kind
from server.api.attention_formats import json_in, lists, subject_body
from server.api.dependencies import deadline, enter, services_of, storage_of
from server.api.openapi import errors
from server.api.parameters import ParameterRoute
from server.api.routes.attention import inspected_sentence
from server.api.schemas.attention import SubjectAnswer, SubjectParameters
from server.api.schemas.base import Answer
from server.errors import InvalidRequest
from server.inspection.types import InspectionResult

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


router = APIRouter(tags=["attention"], route_class=ParameterRoute)


@router.get(
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
        alignment=False,
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
