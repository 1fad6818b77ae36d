"""Parameters and answers of POST /detect, GET /languages and GET /frontend/settings."""

from __future__ import annotations

from pydantic import Field, StrictStr

from server.api.schemas.base import Answer, Key, Parameters


class DetectParameters(Parameters):
    q: StrictStr = Field(description="Text whose language is to be detected.", examples=["Bonjour tout le monde"])
    api_key: Key = None


class DetectedLanguage(Answer):
    confidence: int = Field(ge=0, le=100, description="Percent.")
    language: str = Field(description="May be one that is not served.")


class SourceLanguage(DetectedLanguage):
    alternatives: list[DetectedLanguage] | None = Field(
        default=None, description="Other languages that it may be; only if the confidence is low."
    )


class Language(Answer):
    code: str
    name: str
    targets: list[str] = Field(description="Languages that texts in this one can be translated into.")
