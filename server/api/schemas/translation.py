"""Parameters and answer of POST /translate."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictStr

from server.api.schemas.base import (
    FORMALITY,
    Answer,
    BeamSize,
    Code,
    Formality,
    HeadMask,
    InlineGlossary,
    Key,
    LengthPenalty,
    OptionalBool,
    OptionalFloat,
    OptionalInt,
    OptionalText,
    Parameters,
    list_of_one,
    lower_case,
)
from server.engine.ipc.messages import Timings
from server.errors import InvalidRequest
from server.text.language_id import DetectedLanguage
from server.translation.types import Flag


def _format(value: Any) -> Any:
    """Returns text in lower case. Raises InvalidRequest in LibreTranslate's words for another
    format."""
    if (value := lower_case(value)) not in ("text", "html") and isinstance(value, str):
        raise InvalidRequest(
            f"{value[:20] if value.isprintable() else 'This'} format is not supported"
        )
    return value


class TranslateParameters(Parameters):
    q: StrictStr | list[StrictStr] = Field(
        description="Text to translate, or a list of texts.", examples=["The cat sleeps."]
    )
    source: Code = Field(description="Language of the text, or `auto`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    format: Annotated[Literal["text", "html"], BeforeValidator(_format)] = Field(
        default="text", description="`html` keeps tags and translates the text between them."
    )
    alternatives: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Largest number of further translations."
    )
    api_key: Key = None
    model: OptionalText = Field(
        default=None,
        max_length=200,
        description="Name of the model to use, as in `details.route`; without it, the first one "
        "for the languages is used.",
    )
    beam_size: BeamSize = None
    length_penalty: LengthPenalty = None
    rerank: OptionalBool = Field(
        default=None,
        description="Choose the translation with the reverse direction of the model, where it has "
        "one: better and slower. "
        "Without `beam_size` the beam is wider. null leaves it to the server.",
    )
    max_length: OptionalInt = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Largest number of tokens generated per sentence.",
    )
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0,
        description="No sequence of this many tokens occurs twice in a sentence's translation; 0 "
        "allows it.",
    )
    loop_guard: bool = Field(
        default=True, description="Decode a sentence again if its translation repeats endlessly."
    )
    do_not_translate: Annotated[
        list[Annotated[StrictStr, Field(min_length=1, max_length=200)]],
        BeforeValidator(list_of_one),
    ] = Field(
        default_factory=list,
        max_length=100,
        description="Words and phrases that are kept as they are written.",
    )
    glossary: InlineGlossary = Field(
        default=None,
        description="Terms with their translations: the id of a glossary, or pairs, as an object "
        "or a list.",
        examples=[{"battery": "Akku"}],
    )
    formality: Formality = Field(default=None, description=FORMALITY)
    localize_numbers: bool = Field(
        default=False,
        description="Write numbers with the decimal and thousands separators of the target "
        "language.",
    )
    details: bool = Field(
        default=False,
        description="Add sentences, scores, flags, confidence, warnings and timings; every "
        "sentence is checked for "
        "omissions.",
    )
    on_flag: Annotated[Literal["mark", "retry", "source"], BeforeValidator(lower_case)] = Field(
        default="mark",
        description="What happens to a sentence that is probably wrong: `mark` only names it in "
        "`details`, `retry` "
        "translates it again with a wider beam, `source` returns the source text.",
    )
    masked_heads: HeadMask = None
    stream: bool = Field(
        default=False, description="Answer with server-sent events, one per finished sentence."
    )
    stream_tokens: bool = Field(
        default=False, description="Like `stream`, with further events while a sentence is decoded."
    )
    timeout: OptionalFloat = Field(
        default=None, gt=0, description="Time limit of the request, in seconds."
    )


class RouteStep(Answer):
    model: str
    source: str
    target: str
    beam_size: int = Field(description="Beam width of its search.")
    reranked: bool = Field(
        description="Whether its translations were chosen with the reverse direction."
    )


class HypothesisDetails(Answer):
    text: str
    score: float = Field(description="Score that ranks the hypotheses.")
    token_scores: list[float] = Field(
        description="Natural log-probability of each token and of the end of sentence."
    )
    finish_reason: str = Field(description="`stop` or `length`.")


class SentenceDetails(Answer):
    source: str
    target: str
    read: str = Field(description="Text that the model read, placeholders included.")
    copied: bool = Field(description="Whether the sentence was copied without translation.")
    tokens: int = Field(description="Number of source tokens.")
    flags: list[Flag] = Field(description="What may be wrong with the translation.")
    confidence: float | None = Field(
        description="Probability that the sentence is not translated wrongly (chrF of at least "
        "40); null if the model is not "
        "calibrated, or the sentence was copied."
    )
    hypotheses: list[HypothesisDetails] = Field(
        description="Best first; empty if the sentence was copied."
    )


class TranslationDetails(Answer):
    route: list[RouteStep] = Field(
        description="Models in the order of use; empty if no model was needed."
    )
    pivot: str | None = Field(description="Language between two models.")
    sentences: list[list[SentenceDetails]] = Field(
        description="Sentences of each step of the route."
    )
    warnings: list[str] = Field(
        description="One sentence for each part of the translation that may be wrong."
    )
    timings: Timings = Field(description="Seconds that the slowest sentence spent in each part.")


class TranslateAnswer(Answer):
    """Each value is a list with one entry per text if `q` is a list."""

    translatedText: str | list[str]
    id: str | list[str] = Field(description="For GET /attention?id=...")
    detectedLanguage: DetectedLanguage | list[DetectedLanguage | None] | None = Field(
        default=None, description="Only with `source` `auto`."
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        default=None, description="Only with `alternatives` above 0."
    )
    details: TranslationDetails | list[TranslationDetails] | None = Field(
        default=None, description="Only with `details`."
    )
