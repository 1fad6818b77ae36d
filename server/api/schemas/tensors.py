"""Parameters and answer of GET /attention/tensors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from model.analysis.tensors import NUMBERS_LIMIT, TENSORS
from model.analysis.types import Kind
from server.api.schemas.attention import SubjectAnswer, SubjectParameters
from server.api.schemas.base import Answer
from server.errors import InvalidRequest

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
        description=f"Names of tensors, separated by commas; all without it. At most {NUMBERS_LIMIT:,} numbers are returned.",
        examples=["self.query,self.key,self.scores"],
    )


class TensorValues(Answer):
    axes: str = Field(
        description="A letter for each axis: r `rows`, k `keys`, D features of a head, d of the model, f of the feed-forward "
        "network, c `candidates`.",
        examples=["rk"],
    )
    shape: list[int]
    formula: str = Field(description="The formula of the paper.", examples=["query key^T / sqrt(D)"])
    values: list[float | None] | list[list[float | None]]


class TensorAnswer(SubjectAnswer):
    """Tensors of the forced pass that reads the translation again, on the engine that wrote it."""

    exact: bool = Field(description="As in GET /attention.")
    part: Kind
    layer: int
    head: int
    position: int | None
    rows: list[str] = Field(description="Pieces that the layer reads, also those that `position` leaves out.")
    keys: list[str] = Field(description="Pieces that the head attends to.")
    source_ids: list[int] = Field(description="Numbers of the source's pieces in the vocabulary.")
    candidates: list[list[str]] | None = Field(
        default=None, description="For each row the pieces of its `logits`, best first."
    )
    tensors: dict[str, TensorValues] = Field(description="By name, in the order of computation.")
