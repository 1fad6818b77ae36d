"""Parameters and answers of POST /score, POST /trace, GET /model, GET /positions and GET
/encoder."""

from __future__ import annotations

from typing import Any

from pydantic import Field, StrictStr

from model.analysis.attention_alignment import AlignmentLayer
from server.api.schemas.attention import Candidate, ScoredPieces, TextPieces
from server.api.schemas.base import Answer, BeamSize, Code, HeadMask, Key, LengthPenalty, Parameters

SCORED_LIMIT = 16
"""Largest number of translations in one request for scores."""


class ScoreParameters(Parameters):
    q: StrictStr = Field(description="One sentence.", examples=["A cat"])
    translation: StrictStr | list[StrictStr] = Field(
        description=f"A translation of `q`, or up to {SCORED_LIMIT}.", examples=["Eine Katze"]
    )
    source: Code = Field(description="Language of `q`.", examples=["en"])
    target: Code = Field(description="Language of the translations.", examples=["de"])
    masked_heads: HeadMask = None
    api_key: Key = None


class ScoredTranslation(ScoredPieces):
    score: float = Field(description="Sum of `scores`.")
    average: float = Field(description="Mean of `scores`.")
    perplexity: float


class ScoreAnswer(Answer):
    model: str
    source: TextPieces
    scores: ScoredTranslation | list[ScoredTranslation] = Field(
        description="A list if `translation` is a list."
    )


class TraceParameters(Parameters):
    q: StrictStr = Field(description="Text to translate.", examples=["A cat"])
    source: Code = Field(description="Language of `q`, or `auto`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    sentence: int = Field(default=0, ge=0, description="Sentence of the text, counted from 0.")
    beam_size: BeamSize = None
    length_penalty: LengthPenalty = None
    masked_heads: HeadMask = None
    api_key: Key = None


class SearchStep(Answer):
    """One step of the search. Rows are numbered from 0 within a step."""

    rows: list[list[Candidate]] = Field(
        description="Best continuations of each row with natural log-probabilities."
    )
    chosen: list[dict[str, Any]] = Field(
        description="Hypotheses that continue: the row of the step before (`parent`), the `piece`, "
        "and the sum of the natural "
        "log-probabilities so far (`total`)."
    )
    finished: list[dict[str, Any]] = Field(
        description="Hypotheses that ended in this step: `parent` and `total`."
    )


class TracedHypothesis(Answer):
    text: str
    pieces: list[str]
    scores: list[float]
    score: float = Field(description="Score that ranks the hypotheses.")
    finish_reason: str = Field(description="`stop` or `length`.")


class TraceAnswer(Answer):
    model: str
    language: dict[str, str] = Field(description="`source` and `target`.")
    sentence: int
    sentences: int = Field(description="Number of sentences in the text.")
    source: TextPieces
    steps: list[SearchStep]
    hypotheses: list[TracedHypothesis] = Field(description="Best first.")


class ModelParameters(Parameters):
    source: StrictStr = Field(max_length=32, description="Source language.", examples=["en"])
    target: StrictStr = Field(max_length=32, description="Target language.", examples=["de"])
    api_key: Key = None


class ModelLeg(Answer):
    name: str
    source: str
    target: str
    license: str
    config: dict[str, Any] = Field(description="Fields of the model's config.json and `head_dim`.")
    alignment: AlignmentLayer
    roles: dict[str, Any] | None = Field(
        description="Roles of the heads over `sentences` in `directions`, on which the import "
        "measured them: `heads` has, by "
        "kind of attention, layer and head, the `role` and the `share` of the queries that look "
        "there. Roles: `previous`, "
        "`before_previous`, `next`, `same`, `diagonal`, `start`, `delimiter` (punctuation and the "
        "end of sentence), `rare` (the "
        "rarest token of the sentence), `mixed`. `losses`, null where they were not measured yet: "
        "nats per target token with all "
        "heads (`loss`), and the rise when one of the `heads` is off, all of one of the `layers`, "
        "or all `others` but the "
        "layer that is worth most. Null for a model without measured roles."
    )


class ModelAnswer(Answer):
    legs: list[ModelLeg] = Field(
        description="One model, or two for a route through a pivot language."
    )


class PositionsParameters(ModelParameters):
    n: int = Field(default=24, ge=2, le=64, description="Number of positions.")
    r: int = Field(default=5, ge=1, le=64, description="Size of the restricted neighbourhood.")


class PositionNumbers(Answer):
    columns: list[int] = Field(
        description="The features of a table, or the positions that each position is compared with."
    )
    cells: list[list[float]] = Field(
        description="A row for each position. Of the tables the vectors, of `rope` the product of "
        "a query and the same key, of "
        "`alibi` the bias of the first head, of `restricted` the weights of equal products."
    )
    curves: list[list[float]] = Field(
        description="Over the positions: of tables the products with the middle one, of `rope` "
        "those with the first, of `alibi` "
        "for each head the weights of equal products in the first row, of `restricted` those in "
        "the middle row."
    )


class PositionsAnswer(Answer):
    n: int
    r: int
    own: str = Field(description="How the model tells positions apart.", examples=["sinusoidal"])
    schemes: dict[str, PositionNumbers] = Field(
        description="`sinusoidal`, `learned` (random, as before the training), `rope`, `alibi` and "
        "`restricted`."
    )


class EncoderParameters(ModelParameters):
    q: StrictStr = Field(description="One sentence.", examples=["Cat eats fish."])


class EncoderAnswer(Answer):
    model: str
    language: dict[str, str] = Field(description="`source` and `target`.")
    source: TextPieces
    layers: list[dict[str, list[float]]] = Field(
        description="For each piece the lengths of what the residual connections carry "
        "(`carried_past_attention`, "
        "`carried_past_feed_forward`) and of what is added (`attention`, `feed_forward`); the "
        "share of `active` units, above 0."
    )
    order: dict[str, list[float]] = Field(
        description="The `pieces` with the words in reverse order, and how much the encoder's "
        "output for each piece of `source` "
        "then changes (`moved`, `moved_without_positions`), relative to its length."
    )
    position_fit: dict[str, int | list[float]] | None = Field(
        description="R² of the place of a piece, read by a linear regression from the embedding "
        "and the output of each layer, on "
        "`sentences` that it has not seen. Null for a language without sample sentences."
    )
