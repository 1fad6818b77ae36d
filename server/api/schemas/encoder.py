"""Parameters and answer of GET /encoder."""

from __future__ import annotations

from pydantic import Field, StrictStr

from server.api.schemas.attention import LanguagePair, TextPieces
from server.api.schemas.base import Answer, Key, Parameters

NORMS = "Length of each piece's vector: "


class EncoderParameters(Parameters):
    q: StrictStr = Field(description="One sentence.", examples=["Cat eats fish."])
    source: StrictStr = Field(max_length=32, description="Language of `q`.", examples=["en"])
    target: StrictStr = Field(max_length=32, description="Language of translations.", examples=["de"])
    api_key: Key = None


class FiringUnitAnswer(Answer):
    unit: int = Field(examples=[512])
    pieces: list[tuple[int, float]] = Field(
        description="Pieces on which the unit's output is largest, with the output.", examples=[[(1, 3.2), (4, 0.5)]]
    )


class EncoderLayerAnswer(Answer):
    carried_past_attention: list[float] = Field(
        description=NORMS + "what the residual connection carries past the self-attention.", examples=[[21.5, 17.2]]
    )
    attention: list[float] = Field(description=NORMS + "what the self-attention adds.", examples=[[3.1, 4.5]])
    carried_past_feed_forward: list[float] = Field(
        description=NORMS + "what the residual connection carries past the feed-forward network.",
        examples=[[12.5, 13.2]],
    )
    feed_forward: list[float] = Field(description=NORMS + "what the feed-forward network adds.", examples=[[7.3, 6.9]])
    active: list[float] = Field(
        description="Share of the units of the feed-forward network above 0, for each piece.", examples=[[0.12, 0.2]]
    )
    units: list[FiringUnitAnswer] = Field(description="The units with the largest outputs on pieces with text.")


class OrderAnswer(Answer):
    """The same words in reverse order."""

    pieces: list[int] = Field(description="The pieces in the new order.", examples=[[0, 3, 2, 1, 4]])
    moved: list[float] = Field(
        description="How much the encoder's output for each piece of `source` changes in the new order, relative to its "
        "length.",
        examples=[[0.4, 0.6]],
    )
    moved_without_positions: list[float] = Field(
        description="The same with positions switched off: 0 but for rounding.", examples=[[1e-7, 2e-7]]
    )


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
