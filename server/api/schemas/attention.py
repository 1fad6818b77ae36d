"""Parameters and JSON answer of GET /attention."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictStr, WithJsonSchema

from model.analysis.attention_alignment import Word
from model.analysis.head_roles import HeadFigures
from server.api.schemas.base import (
    Answer,
    BeamSize,
    HeadMask,
    Heads,
    Key,
    Parameters,
    list_of_one,
    read_heads,
)
from server.inspection.attention_view import ViewOptions
from server.inspection.types import AlignmentMethod

Format = Literal["json", "npz", "svg", "png", "pdf", "html"]
Numbers = Literal["lists", "float32", "uint16"]
Candidate = tuple[str, float]
Weights = list[list[list[list[float | None]]]] | str
LanguageCode = Annotated[StrictStr | None, Field(max_length=32)]
"""A code, of which an empty one is an unsupported language; `OptionalCode` takes it as absent."""


class SubjectParameters(Parameters):
    """The translated sentence that a request is about."""

    id: StrictStr | None = Field(
        default=None, max_length=64, description="Id of an earlier translation."
    )
    q: StrictStr | None = Field(
        default=None,
        description="Text to translate and inspect, instead of an id.",
        examples=["The cat sleeps."],
    )
    source: LanguageCode = Field(
        default=None, description="Language of `q`, or `auto`.", examples=["en"]
    )
    target: LanguageCode = Field(
        default=None, description="Language to translate `q` into.", examples=["de"]
    )
    translation: StrictStr | None = Field(
        default=None, description="A translation of `q` to inspect instead of the model's own."
    )
    sentence: int = Field(default=0, ge=0, description="Sentence of the text, counted from 0.")
    leg: int = Field(
        default=0, ge=0, description="Step of a route through a pivot language, counted from 0."
    )
    masked_heads: HeadMask = None
    beam_size: BeamSize = None
    hypothesis: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="A hypothesis of the beam search, counted from 0, best first. The sentence is "
        "decoded again with `beam_size`.",
    )
    prefix: Annotated[list[StrictStr], BeforeValidator(list_of_one)] = Field(
        default=[],
        max_length=1024,
        description="Pieces that the translation begins with; the sentence is decoded again from "
        "there. Repeat the parameter for several pieces.",
    )
    api_key: Key = None


class AttentionParameters(ViewOptions, SubjectParameters):
    figures: bool = Field(
        default=False, description="Add entropy, diagonality and role of every head."
    )
    numbers: Numbers = Field(
        default="lists",
        description="Weights in JSON: `lists` with five decimals, or base64 of little-endian "
        "`float32` or of `uint16` (65535 times the weight).",
    )
    vectors: Annotated[
        Heads | None,
        BeforeValidator(partial(read_heads, name="vectors")),
        WithJsonSchema({"anyOf": [{"type": "string", "maxLength": 32}, {"type": "null"}]}),
    ] = Field(
        default=None,
        description="A head, such as `cross.0.1`, whose queries, keys and values are added to the "
        "JSON.",
    )
    alignment: AlignmentMethod | None = Field(
        default=None,
        description="Method of word alignment. `attention` uses what source words contribute to "
        "cross-attention. `combined` also uses the model's probabilities in both directions, which "
        "is more exact and takes some milliseconds. The default is `combined` for a report without "
        "masked heads, otherwise `attention`.",
    )
    format: Format | None = Field(
        default=None,
        description="`json`, `npz`, a picture (`svg`, `png`, `pdf`), or `html`, a report in one "
        "file. Without it, the `Accept` header decides; a browser gets the explorer.",
    )


class TextPieces(Answer):
    text: str
    pieces: list[str]
    offsets: list[tuple[int, int]] = Field(
        description="Start and end of each piece in `text`, in characters."
    )


class SourceAnswer(TextPieces):
    words: list[Word]


class ScoredPieces(TextPieces):
    scores: list[float] = Field(description="Natural log-probability of each piece.")
    candidates: list[list[Candidate]] = Field(
        description="The most probable pieces at each position with their natural "
        "log-probabilities, best first."
    )
    outside: list[int] = Field(
        description="Positions of pieces that are not on the shortlist of the sentence: they were "
        "forced. Probabilities are "
        "those among the pieces of the shortlist and of the translation itself."
    )


class TargetAnswer(ScoredPieces):
    words: list[Word]


class AlignmentAnswer(Answer):
    layer: int = Field(description="Layer of cross-attention whose contributions align words.")
    shift: bool = Field(description="Whether the row after that of a piece is used.")
    method: AlignmentMethod
    links: list[tuple[int, int, float]] = Field(
        description="Source word, target word and probability."
    )
    coverage: list[float] = Field(
        description="Attention that each source word gets from the whole target."
    )
    weights: list[list[float]] = Field(
        description="What each source word contributes to each target word, in the layer; the sum "
        "over the source is 1."
    )


class SubjectAnswer(Answer):
    """The sentence of a translation whose forced pass is shown."""

    id: str | None = Field(
        description="Id of the translation; null for one that is given or not stored."
    )
    model: str
    language: dict[str, str] = Field(description="`source` and `target`.")
    sentence: int
    sentences: int = Field(description="Number of sentences in the text.")
    leg: int
    legs: int = Field(description="Number of steps of the route.")


class AttentionAnswer(SubjectAnswer):
    """Maps have the axes layer, head, query and key, also if one layer or head is chosen."""

    exact: bool = Field(
        description="Whether `target.scores` are those of the decode that wrote the translation, "
        "to the bit. False for a given translation, for other masked heads, for records of older "
        "versions, and where the server computes otherwise than when it translated."
    )
    level: Literal["piece", "word"]
    source: SourceAnswer
    target: TargetAnswer
    decoder_input: dict[str, list[str] | list[Word]] = Field(
        description="The `pieces` that the decoder reads, which are the keys of its "
        "self-attention, and their `words`."
    )
    alignment: AlignmentAnswer
    layers: dict[str, list[int]] = Field(description="Layers of each kind of map.")
    heads: dict[str, list[int | str]] = Field(description="Heads of each kind of map.")
    shapes: dict[str, list[int]] = Field(
        description="Shape of each kind of map: layers, heads, queries, keys."
    )
    cross: Weights | None = Field(
        default=None, description="Cross-attention: target queries, source keys."
    )
    encoder: Weights | None = Field(default=None, description="Self-attention of the encoder.")
    decoder: Weights | None = Field(
        default=None, description="Self-attention of the decoder; the keys are `decoder_input`."
    )
    absent: dict[str, str] | None = Field(
        default=None,
        description="Kinds of maps that the model does not have, each with the reason: a decoder "
        "with a recurrence (Firefox) has no self-attention.",
    )
    forget_gates: list[list[float]] | None = Field(
        default=None,
        description="Only for a decoder with a recurrence: the share of its state that each layer "
        "keeps when it reads each of the pieces of `decoder_input`, averaged over the features.",
    )
    figures: dict[str, list[list[HeadFigures]]] | None = Field(
        default=None, description="Only with `figures`: by kind, layer and head."
    )
    vectors: dict[str, list[list[float]]] | None = Field(
        default=None,
        description="Only with `vectors`: `query`, `key` and `value` of the head, a row for each "
        "position.",
    )
