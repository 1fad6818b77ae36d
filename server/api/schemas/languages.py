"""Parameters and answers of POST /detect, GET /languages and GET /frontend/settings."""

from __future__ import annotations

from pydantic import Field, StrictStr

from server.api.schemas.base import Answer, Key, Parameters


class DetectParameters(Parameters):
    q: StrictStr = Field(description="Text whose language is to be detected.", examples=["Bonjour tout le monde"])
    api_key: Key = None


class DetectedLanguage(Answer):
    confidence: int = Field(ge=0, le=100, description="Percent.", examples=[90])
    language: str = Field(description="May be one that is not served.", examples=["fr"])


class SourceLanguage(DetectedLanguage):
    alternatives: list[DetectedLanguage] | None = Field(
        default=None, description="Other languages that it may be; only if the confidence is low."
    )


class NamedLanguage(Answer):
    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])


class Language(NamedLanguage):
    targets: list[str] = Field(
        description="Languages that texts in this one can be translated into.", examples=[["de", "en", "fr"]]
    )


class DefaultLanguages(Answer):
    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(Answer):
    """Fields that LibreTranslate's user interface reads."""

    charLimit: int = Field(description="Largest number of characters in a request.", examples=[100_000])
    frontendTimeout: int = Field(
        description="Milliseconds that a user interface waits before it translates.", examples=[1000]
    )
    apiKeys: bool = Field(description="Whether the server uses API keys.", examples=[False])
    keyRequired: bool = Field(description="Whether every request needs an API key.", examples=[False])
    suggestions: bool = Field(description="Always false: suggestions are not stored.", examples=[False])
    filesTranslation: bool = Field(examples=[True])
    supportedFilesFormat: list[str] = Field(examples=[[".txt", ".html", ".docx"]])
    language: DefaultLanguages
