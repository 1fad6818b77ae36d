"""Parameters and answer of GET /encoder."""

from __future__ import annotations

from pydantic import Field, StrictStr

from server.api.schemas.attention import LanguagePair, TextPieces
from server.api.schemas.base import Answer, Key, Parameters


class EncoderParameters(Parameters):
    q: StrictStr = Field(description="One sentence.", examples=["Cat eats fish."])
    source: StrictStr = Field(max_length=32, description="Language of `q`.", examples=["en"])
    target: StrictStr = Field(max_length=32, description="Language of translations.", examples=["de"])
    api_key: Key = None


class FiringUnitAnswer(Answer):
    """A unit of a feed-forward network, and the pieces on which its output is largest, with the output."""

    unit: int = Field(examples=[512])
    pieces: list[tuple[int, float]] = Field(examples=[[(1, 3.2), (4, 0.5)]])


class EncoderLayerAnswer(Answer):
    """Lengths of each piece's vector: what the residual connections carry past the sublayers, and what these add. `active`
    is the share of feed-forward units above 0 for each piece; `units` have the largest outputs on pieces with text."""

    carried_past_attention: list[float] = Field(examples=[[21.5, 17.2]])
    attention: list[float] = Field(examples=[[3.1, 4.5]])
    carried_past_feed_forward: list[float] = Field(examples=[[12.5, 13.2]])
    feed_forward: list[float] = Field(examples=[[7.3, 6.9]])
    active: list[float] = Field(examples=[[0.12, 0.2]])
    units: list[FiringUnitAnswer]


class OrderAnswer(Answer):
    """The `pieces` with the words in reverse order, and how much the encoder's output for each piece of `source` then changes,
    relative to its length. Without positions it is 0 but for rounding."""

    pieces: list[int] = Field(examples=[[0, 3, 2, 1, 4]])
    moved: list[float] = Field(examples=[[0.4, 0.6]])
    moved_without_positions: list[float] = Field(examples=[[1e-7, 2e-7]])


class PositionFitAnswer(Answer):
    """R² of the place of a piece in its sentence, on sentences that the regression has not seen. A linear regression reads
    the place from the embedding and from the output of each layer."""

    sentences: int = Field(examples=[24])
    with_positions: list[float] = Field(examples=[[0.93, 0.98]])
    without_positions: list[float] = Field(examples=[[0.01, 0.14]])


class EncoderAnswer(Answer):
    model: str = Field(examples=["general-en-de-fr-es"])
    language: LanguagePair
    source: TextPieces
    layers: list[EncoderLayerAnswer]
    order: OrderAnswer
    position_fit: PositionFitAnswer | None = Field(description="Null for a language without sample sentences.")
