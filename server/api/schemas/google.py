"""Parameters and answers of the Google-compatible routes under /language/translate/v2."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictStr

from server.api.schemas.base import Code, OptionalCode, OptionalText, Parameters, list_of_one, none_if_blank

Texts = Annotated[list[StrictStr], BeforeValidator(list_of_one)]
Model = Annotated[
    Literal["nmt", "base"] | None,
    BeforeValidator(none_if_blank),
    Field(default=None, description="No effect: there is one model for a pair."),
]
GoogleKey = Annotated[
    StrictStr | None, Field(default=None, max_length=512, description="API key; `X-Goog-Api-Key` works too.")
]


class GoogleParameters(Parameters):
    q: Texts = Field(description="Texts to translate.", examples=[["Hello, world!"]])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    source: OptionalCode = Field(
        default=None, description="Language of the texts; detected if absent.", examples=["en"]
    )
    format: Literal["html", "text"] = Field(default="html", description="`html` keeps tags.")
    model: Model = None
    key: GoogleKey = None


class GoogleDetectParameters(Parameters):
    q: Texts = Field(description="Texts whose language is to be detected.", examples=[["Guten Morgen"]])
    key: GoogleKey = None


class GoogleLanguagesParameters(Parameters):
    target: OptionalText = Field(default=None, description="Any value adds the English names of the languages.")
    key: OptionalText = Field(default=None, description="API key; `X-Goog-Api-Key` works too.")
