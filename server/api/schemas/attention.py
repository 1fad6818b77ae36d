"""Parameters and JSON answer of GET /attention."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictStr, WithJsonSchema

from model.analysis.attention_alignment import AlignmentHead, Word
from model.analysis.head_statistics import HeadFigures
from server.api.schemas.base import (
    Answer,
    BeamSize,
    HeadMask,
    Heads,
    Key,
    Parameters,
    list_of_one,
    number_or_word,
    read_heads,
)
from server.inspection.attention_view import View
from server.inspection.pictures.convert import DPIS, WIDTHS
from server.inspection.pictures.labels import TITLE_LIMIT
from server.inspection.pictures.themes import ThemeName

Format = Literal["json", "npz", "svg", "png", "pdf", "html"]
Numbers = Literal["lists", "float32", "uint16"]
Candidate = tuple[str, float]
Weights = list[list[list[list[float | None]]]] | str
LanguageCode = Annotated[StrictStr | None, Field(max_length=32)]
"""An empty code is an unsupported language, where `OptionalCode` takes it for a parameter that is not given."""

HEADS = re.compile(r"all|mean|max|[0-9]{1,3}(,[0-9]{1,3}){1,63}", re.ASCII)


def heads(value: int | str) -> int | str:
    """Returns the choice of heads. Raises ValueError for other text."""
    if isinstance(value, str) and not HEADS.fullmatch(value):
        raise ValueError("must be a number, several such as 0,3, or one of all, mean, max")
    return value


class AttentionParameters(Parameters):
    id: StrictStr | None = Field(default=None, max_length=64, description="Id of an earlier translation.")
    q: StrictStr | None = Field(
        default=None, description="Text to translate and inspect, instead of an id.", examples=["The cat sleeps."]
    )
    source: LanguageCode = Field(default=None, description="Language of `q`, or `auto`.", examples=["en"])
    target: LanguageCode = Field(default=None, description="Language to translate `q` into.", examples=["de"])
    translation: StrictStr | None = Field(
        default=None, description="A translation of `q` to inspect instead of the model's own."
    )
    sentence: int = Field(default=0, ge=0, description="Sentence of the text, counted from 0.")
    leg: int = Field(default=0, ge=0, description="Step of a route through a pivot language, counted from 0.")
    kind: Literal["cross", "encoder", "decoder", "all"] = Field(default="all", description="Attention maps to return.")
    layer: Annotated[int | Literal["all"], BeforeValidator(number_or_word)] = Field(
        default="all", description="One layer, counted from 0, or `all`."
    )
    head: Annotated[int | StrictStr, BeforeValidator(number_or_word), AfterValidator(heads)] = Field(
        default="all",
        description="One head, counted from 0, several (`0,3`), the `mean` or `max` over the heads, or `all`.",
    )
    level: Literal["piece", "word"] = Field(
        default="piece", description="`word` sums weights over a key's pieces and averages them over a query's."
    )
    rollout: bool = Field(default=False, description="Attention rollout instead of heads: one map per layer.")
    normalize: Literal["none", "row", "max"] = Field(
        default="none",
        description="`row`: the weights of each query sum to 1; `max`: the largest weight of a map is 1.",
    )
    figures: bool = Field(default=False, description="Add entropy, diagonality and role of every head.")
    numbers: Numbers = Field(
        default="lists",
        description="Weights in JSON: `lists` with five decimals, or base64 of little-endian `float32` or of `uint16` "
        "(65535 times the weight).",
    )
    masked_heads: HeadMask = None
    vectors: Annotated[
        Heads | None,
        BeforeValidator(read_heads),
        WithJsonSchema({"anyOf": [{"type": "string", "maxLength": 32}, {"type": "null"}]}),
    ] = Field(
        default=None,
        description="A head, such as `cross.0.1`, whose queries, keys and values are added to the JSON.",
    )
    alignment: Literal["combined", "attention"] | None = Field(
        default=None,
        description="Method of word alignment. `attention` links each word to the one it attends to most. `combined` also "
        "uses the model's probabilities in both directions, which is more exact and takes some milliseconds. The default "
        "is `combined` for a report without masked heads, otherwise `attention`.",
    )
    beam_size: BeamSize = None
    hypothesis: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="A hypothesis of the beam search, counted from 0, best first. The sentence is decoded again with "
        "`beam_size`.",
    )
    prefix: Annotated[list[StrictStr], BeforeValidator(list_of_one)] = Field(
        default=[],
        max_length=1024,
        description="Pieces that the translation begins with; the sentence is decoded again from there. Repeat the "
        "parameter for several pieces.",
    )
    format: Format | None = Field(
        default=None,
        description="`json`, `npz`, a picture (`svg`, `png`, `pdf`), or `html`, a report in one file. Without it, the "
        "`Accept` header decides; a browser gets the explorer.",
    )
    view: View | None = Field(
        default=None,
        description="Pictures: `map` is one map, `grid` several, `lines` the heads of one layer in colours, `alignment` "
        "the words with ribbons, `card` the same in 1200 x 630 pixels for sharing. By default `map` or `grid`.",
    )
    width: Annotated[int, Field(ge=WIDTHS[0], le=WIDTHS[1])] | None = Field(
        default=None, description="Pictures: width in pixels of 1/96 inch. The default depends on the sentence."
    )
    dpi: Annotated[int, Field(ge=DPIS[0], le=DPIS[1])] | None = Field(
        default=None,
        description="PNG: pixels per inch. The default is 144, less for large pictures, and 96 for a card.",
    )
    theme: ThemeName = Field(default="light", description="Pictures: colours; `print` is for black-and-white printing.")
    title: Annotated[StrictStr, Field(max_length=TITLE_LIMIT)] | None = Field(
        default=None, description="Pictures: title; empty for none. The default is the sentence and its translation."
    )
    special: bool = Field(
        default=True, description="Pictures: `0` leaves out the language tag and the start and end of sentence."
    )
    query: Annotated[int, Field(ge=0)] | Annotated[StrictStr, Field(max_length=100)] | None = Field(
        default=None,
        union_mode="left_to_right",
        description="Pictures of lines, alignment or card: the row, by number or text, whose lines are shown or stand "
        "out, such as `making`.",
    )
    api_key: Key = None


class TextPieces(Answer):
    text: str
    pieces: list[str]
    offsets: list[tuple[int, int]] = Field(description="Start and end of each piece in `text`, in characters.")


class SourceAnswer(TextPieces):
    words: list[Word]


class ScoredPieces(TextPieces):
    scores: list[float] = Field(description="Natural log-probability of each piece.")
    candidates: list[list[Candidate]] = Field(
        description="The most probable pieces at each position with their natural log-probabilities, best first."
    )


class TargetAnswer(ScoredPieces):
    words: list[Word]


class AlignmentAnswer(Answer):
    heads: list[AlignmentHead] = Field(description="Cross-attention heads that align words best.")
    method: Literal["combined", "attention"]
    links: list[tuple[int, int, float]] = Field(description="Source word, target word and weight.")
    coverage: list[float] = Field(description="Attention that each source word gets from the whole target.")


class AttentionAnswer(Answer):
    """Maps have the axes layer, head, query and key, also if one layer or head is chosen."""

    id: str | None = Field(description="Id of the translation; null for one that is given or not stored.")
    model: str
    language: dict[str, str] = Field(description="`source` and `target`.")
    sentence: int
    sentences: int = Field(description="Number of sentences in the text.")
    leg: int
    legs: int = Field(description="Number of steps of the route.")
    level: Literal["piece", "word"]
    source: SourceAnswer
    target: TargetAnswer
    decoder_input: dict[str, list[str] | list[Word]] = Field(
        description="The `pieces` that the decoder reads, which are the keys of its self-attention, and their `words`."
    )
    alignment: AlignmentAnswer
    layers: dict[str, list[int]] = Field(description="Layers of each kind of map.")
    heads: dict[str, list[int | str]] = Field(description="Heads of each kind of map.")
    shapes: dict[str, list[int]] = Field(description="Shape of each kind of map: layers, heads, queries, keys.")
    cross: Weights | None = Field(default=None, description="Cross-attention: target queries, source keys.")
    encoder: Weights | None = Field(default=None, description="Self-attention of the encoder.")
    decoder: Weights | None = Field(
        default=None, description="Self-attention of the decoder; the keys are `decoder_input`."
    )
    absent: dict[str, str] | None = Field(
        default=None,
        description="Kinds of maps that the model does not have, each with the reason: a decoder with a recurrence (Firefox) "
        "has no self-attention.",
    )
    forget_gates: list[list[float]] | None = Field(
        default=None,
        description="Only for a decoder with a recurrence: the share of its state that each layer keeps when it reads each of "
        "the pieces of `decoder_input`, averaged over the features.",
    )
    figures: dict[str, list[list[HeadFigures]]] | None = Field(
        default=None, description="Only with `figures`: by kind, layer and head."
    )
    vectors: dict[str, list[list[float]]] | None = Field(
        default=None,
        description="Only with `vectors`: `query`, `key` and `value` of the head, a row for each position.",
    )
