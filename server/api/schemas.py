"""Parameters and answers of our own endpoints (the LibreTranslate dialect), as validated objects."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _none_if_blank(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


Code = Annotated[StrictStr, Field(min_length=1, max_length=32, examples=["en"])]
Key = Annotated[
    StrictStr | None, Field(default=None, max_length=512, description="API key, where the server asks for one.")
]
OptionalInt = Annotated[int | None, BeforeValidator(_none_if_blank)]
OptionalFloat = Annotated[Annotated[float, Field(allow_inf_nan=False)] | None, BeforeValidator(_none_if_blank)]


class Schema(BaseModel):
    """Unknown fields are ignored, as clients send many."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class TranslateParameters(Schema):
    q: StrictStr | list[StrictStr] = Field(
        description="Text to translate, or a list of texts.", examples=["The cat sleeps."]
    )
    source: Code = Field(description="Language of the text, or `auto`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    format: Annotated[Literal["text", "html"], BeforeValidator(_lower)] = Field(
        default="text", description="`html` keeps tags and translates what is between them."
    )
    alternatives: Annotated[int, Field(ge=0)] = Field(default=0, description="How many other translations to give.")
    api_key: Key = None
    beam_size: OptionalInt = Field(default=None, ge=1, le=32, description="Beam width; 1 is greedy.")
    length_penalty: OptionalFloat = Field(default=None, ge=0, le=5, description="GNMT length penalty alpha.")
    max_length: OptionalInt = Field(default=None, ge=1, le=100_000, description="Most tokens generated per sentence.")
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="Forbid any so many tokens to stand in a sentence's translation twice; 0 does not."
    )
    loop_guard: bool = Field(default=True, description="Decode a sentence again whose translation repeats itself without end.")
    details: bool = Field(default=False, description="Add sentences, pieces, scores and timings.")
    masked_heads: StrictStr | None = Field(
        default=None,
        max_length=4096,
        description="Attention heads to switch off, kind.layer.head each, separated by commas.",
        examples=["cross.0.1,encoder.2.3"],
    )
    stream: bool = Field(default=False, description="Answer with server-sent events: sentences as they finish.")
    stream_tokens: bool = Field(default=False, description="The same, with the tokens of sentences under way too.")
    timeout: OptionalFloat = Field(default=None, gt=0, description="Give up after so many seconds.")


class DetectParameters(Schema):
    q: StrictStr = Field(description="Text whose language is asked for.", examples=["Bonjour tout le monde"])
    api_key: Key = None


class SuggestParameters(Schema):
    q: StrictStr = Field(min_length=1, description="The text that was translated.", examples=["Hello world!"])
    s: StrictStr = Field(min_length=1, description="The better translation.", examples=["Hallo Welt!"])
    source: Code
    target: Annotated[StrictStr, Field(min_length=1, max_length=32, examples=["de"])]
    api_key: Key = None


class SuggestAnswer(Schema):
    success: bool


class DetectedLanguage(Schema):
    confidence: int = Field(ge=0, le=100, examples=[90])
    language: str = Field(examples=["fr"])


class TranslateAnswer(Schema):
    """Each value is a list, one entry per text, where `q` was a list."""

    translatedText: str | list[str] = Field(examples=["Die Katze schläft."])
    id: str | list[str] = Field(description="For GET /attention?id=...", examples=["01JDX3T0W5C7Q8Z1V2B3N4M5K6"])
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(
        default=None, description="Only for `auto`."
    )
    alternatives: list[str] | list[list[str]] | None = Field(default=None, description="Only where asked for.")
    details: Any = Field(default=None, description="Only where asked for.")


class Language(Schema):
    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])
    targets: list[str] = Field(examples=[["de", "en", "fr"]])


class ErrorAnswer(Schema):
    error: str = Field(examples=["Invalid request: missing q parameter."])
