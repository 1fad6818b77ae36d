"""Parameters and answers of the Google-compatible routes under /language/translate/v2."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictStr

from server.api.schemas.base import Answer, Code, OptionalCode, OptionalText, Parameters, list_of_one, none_if_blank

Texts = Annotated[list[StrictStr], BeforeValidator(list_of_one)]
Model = Annotated[
    Literal["nmt", "base"] | None,
    BeforeValidator(none_if_blank),
    Field(default=None, description="No effect: there is one model for a pair."),
]
GoogleKey = Annotated[
    StrictStr | None, Field(default=None, max_length=512, description="API key; `X-Goog-Api-Key` works too.")
]


class GoogleErrorDetail(Answer):
    message: str = Field(examples=["Invalid request: missing q parameter."])
    domain: str = Field(examples=["global"])
    reason: str = Field(examples=["invalid"])


class GoogleErrorBody(Answer):
    code: int = Field(examples=[400])
    message: str = Field(examples=["Invalid request: missing q parameter."])
    status: str = Field(examples=["INVALID_ARGUMENT"])
    errors: list[GoogleErrorDetail]


class GoogleError(Answer):
    error: GoogleErrorBody


class GoogleParameters(Parameters):
    q: Texts = Field(description="Texts to translate.", examples=[["Hello, world!"]])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    source: OptionalCode = Field(
        default=None, description="Language of the texts; detected if absent.", examples=["en"]
    )
    format: Literal["html", "text"] = Field(default="html", description="`html` keeps tags.")
    model: Model = None
    key: GoogleKey = None


class GoogleTranslation(Answer):
    translatedText: str = Field(examples=["Hallo, Welt!"])
    detectedSourceLanguage: str | None = Field(default=None, description="Only if `source` is absent.")


class GoogleTranslations(Answer):
    translations: list[GoogleTranslation]


class GoogleAnswer(Answer):
    data: GoogleTranslations


class GoogleDetectParameters(Parameters):
    q: Texts = Field(description="Texts whose language is to be detected.", examples=[["Guten Morgen"]])
    key: GoogleKey = None


class GoogleDetection(Answer):
    language: str = Field(examples=["de"])
    confidence: float = Field(description="0 to 1.", examples=[0.84])
    isReliable: bool = Field(examples=[False])


class GoogleDetections(Answer):
    detections: list[list[GoogleDetection]] = Field(description="One list per text.")


class GoogleDetectAnswer(Answer):
    data: GoogleDetections


class GoogleLanguagesParameters(Parameters):
    target: OptionalText = Field(default=None, description="Any value adds the English names of the languages.")
    key: OptionalText = Field(default=None, description="API key; `X-Goog-Api-Key` works too.")


class GoogleLanguage(Answer):
    language: str = Field(examples=["de"])
    name: str | None = Field(default=None, description="Only with `target`.", examples=["German"])


class GoogleLanguages(Answer):
    languages: list[GoogleLanguage]


class GoogleLanguagesAnswer(Answer):
    data: GoogleLanguages
