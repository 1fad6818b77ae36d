"""Parameters and answer of POST /live."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, StrictBool, StrictStr

from model.analysis.attention_alignment import Word
from server.api.schemas.attention import TextPieces
from server.api.schemas.base import Answer, Code, Key, Parameters, list_of_one


class LiveParameters(Parameters):
    q: StrictStr = Field(
        description="The words so far; only the first sentence is translated.", examples=["The cat sleeps in"]
    )
    source: Code = Field(description="Language of `q`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    prefix: Annotated[list[StrictStr], BeforeValidator(list_of_one)] = Field(
        default=[],
        max_length=1024,
        description="The pieces that were given out for this sentence (`prefix` of the last answer).",
    )
    wait: int = Field(
        default=2,
        ge=0,
        le=100,
        description="Nothing is given out that comes from the last `wait` words. Fewer are faster and less exact.",
    )
    final: StrictBool = Field(default=False, description="Whether no more words follow.")
    api_key: Key = None


class LiveAnswer(Answer):
    """What will not change any more is the beginning of `target.text` up to `kept`."""

    model: str
    source: TextPieces = Field(description="The first sentence of `q`.")
    target: TextPieces = Field(description="Its translation, as far as the words go.")
    words: dict[str, list[Word]] = Field(description="The words of `source` and `target`.")
    aligned: list[int | None] = Field(
        description="The source word that each word of the translation comes from, null for the end of sentence."
    )
    kept: int = Field(description="Number of characters of `target.text` that are given out.")
    prefix: list[str] = Field(description="Their pieces, to be sent with the next words.")
    complete: bool = Field(description="Whether the sentence has ended, so that all of the translation is given out.")
    consumed: int = Field(description="Number of characters of `q` up to the end of a complete sentence, else 0.")
