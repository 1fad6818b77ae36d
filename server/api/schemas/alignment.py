"""Parameters and answer of POST /align."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, StrictStr

from server.api.schemas.base import Answer, Code, Key, Parameters, json_pairs
from server.inspection.text_alignment import AlignedTexts
from server.inspection.word_alignment import AlignmentMethod

PAIRS_LIMIT = 100
"""Largest number of pairs in one request for word alignments."""


class TextPair(Parameters):
    source: StrictStr
    target: StrictStr


class AlignParameters(Parameters):
    pairs: Annotated[list[TextPair], BeforeValidator(json_pairs)] = Field(
        description=f"Up to {PAIRS_LIMIT} sentences with their translations: objects, or lists of two.",
        examples=[[["A cat sleeps.", "Eine Katze schläft."]]],
    )
    source: Code = Field(description="Language of the sentences.", examples=["en"])
    target: Code = Field(description="Language of the translations.", examples=["de"])
    method: AlignmentMethod = Field(
        default="combined",
        description="As `alignment` of `/attention`. A model that cannot compare words has only `attention`.",
    )
    tokenized: bool = Field(default=False, description="The words are those between spaces.")
    api_key: Key = None


class AlignAnswer(Answer):
    model: str
    method: AlignmentMethod = Field(description="The method that was used.")
    pairs: list[AlignedTexts] = Field(
        description="The words of both sides with their characters, the links (source word, target word, probability), and "
        "these without probabilities as `0-0 1-2`."
    )
