"""Parameters and answer of POST /translate_file."""

from __future__ import annotations

from pydantic import Field

from server.api.schemas.base import Answer, Code, Key, UploadParameters
from server.api.schemas.glossaries import InlineGlossary


class FileParameters(UploadParameters):
    source: Code = Field(description="Language of the file, or `auto`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    api_key: Key = None
    glossary: InlineGlossary = Field(
        default=None, description="Terms with their translations: the id of a glossary, or pairs as JSON."
    )


class FileAnswer(Answer):
    translatedFileUrl: str = Field(description="Address of the translated file, valid for a limited time.")
