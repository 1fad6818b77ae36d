"""Parameters of glossaries: DeepL's routes under /v2 and /v3, and `glossary` of translations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictStr, model_validator

from server.api.schemas.base import Code, Parameters, json_pairs, lower_case
from server.errors import InvalidRequest
from server.glossaries.types import TERM_CHARACTERS

INLINE_PAIRS = 1_000
"""Most pairs of a glossary that is part of a request."""
ENTRIES_EXAMPLE = "battery\tAkku\ndevice\tGerät"

Format = Annotated[Literal["tsv", "csv"], BeforeValidator(lower_case)]
Exact = Annotated[
    bool,
    Field(
        description="With `false`, plurals and cases of the terms are found too, and translations "
        "may be inflected."
    ),
]


def _not_blank(term: str) -> str:
    if not term.strip():
        raise ValueError("must not be blank.")
    return term


Term = Annotated[
    StrictStr, Field(min_length=1, max_length=TERM_CHARACTERS), AfterValidator(_not_blank)
]


class GlossaryPair(Parameters):
    """A term and its translation in a request."""

    source: Term = Field(examples=["battery"])
    target: Term = Field(examples=["Akku"])
    exact: Exact = True


InlineGlossary = Annotated[
    StrictStr | Annotated[list[GlossaryPair], Field(max_length=INLINE_PAIRS)] | None,
    BeforeValidator(json_pairs),
]


class DeeplCredentials(Parameters):
    auth_key: Annotated[
        StrictStr | None,
        Field(default=None, max_length=512, description="API key, for clients without the header."),
    ]


class DictionaryPair(DeeplCredentials):
    source_lang: Code = Field(description="Language of the terms.", examples=["EN"])
    target_lang: Code = Field(description="Language of the translations.", examples=["DE"])


class DictionaryParameters(DictionaryPair):
    entries: StrictStr = Field(description="One entry a line.", examples=[ENTRIES_EXAMPLE])
    entries_format: Format = Field(default="tsv", description="`tsv` or `csv`.")
    exact: Exact = True


class GlossaryParameters(DictionaryParameters):
    name: StrictStr = Field(description="Name of the glossary.", examples=["Devices"])


class Dictionaries(DeeplCredentials):
    @model_validator(mode="before")
    @classmethod
    def _all_read(cls, values: Any) -> Any:
        """Refuses fields of dictionaries in a form that is not read, which would make an empty
        glossary."""
        if any(name != "dictionaries" and name.startswith("dictionaries") for name in values):
            raise InvalidRequest(
                "'dictionaries' must be a list; a form names its fields "
                "dictionaries[0].source_lang."
            )
        return values


class MultilingualParameters(Dictionaries):
    name: StrictStr = Field(description="Name of the glossary.", examples=["Devices"])
    dictionaries: list[DictionaryParameters] = Field(
        default=[],
        max_length=100,
        description="Entries of each language pair. They may be added later.",
        examples=[[{"source_lang": "EN", "target_lang": "DE", "entries": ENTRIES_EXAMPLE}]],
    )


class MultilingualChanges(Dictionaries):
    name: StrictStr | None = Field(default=None, description="New name.")
    dictionaries: list[DictionaryParameters] = Field(
        default=[],
        max_length=100,
        description="Entries that are added, or replace those with the same term.",
    )
