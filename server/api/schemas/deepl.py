"""Parameters of DeepL's routes under /v2 and /v3."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictStr,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from server.api.schemas.base import (
    FORMALITY,
    Code,
    Exact,
    Formality,
    OptionalBool,
    OptionalCode,
    OptionalText,
    Parameters,
    Texts,
    UploadParameters,
    lower_case,
)
from server.config import comma_separated
from server.errors import InvalidRequest


def _text_of(value: Any) -> Any:
    """Returns a string, number or boolean as lower-case text, and None for blank text."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value).strip().lower() or None if isinstance(value, str | int) else value


def _comma_separated(value: Any) -> Any:
    """Returns the parts of text. A multipart form has a list of one text."""
    if isinstance(value, list) and len(value) == 1:
        [value] = value
    return comma_separated(value) if isinstance(value, str) else value


def _unsupported(value: Any, field: ValidationInfo) -> Any:
    if value:
        raise InvalidRequest(f"'{field.field_name}' is not supported by this server; leave it out.")
    return value


GLOSSARY = "Id of a glossary with a dictionary for the two languages; needs `source_lang`."
GlossaryIds = Annotated[
    Annotated[list[Annotated[StrictStr, Field(max_length=256)]], Field(max_length=5)] | None,
    BeforeValidator(_comma_separated),
]
Unsupported = Annotated[
    Any, AfterValidator(_unsupported), Field(default=None, description="Rejected: not supported.")
]
Tags = Annotated[
    frozenset[Annotated[str, StringConstraints(strict=True, max_length=256, to_lower=True)]],
    BeforeValidator(_comma_separated),
]


class DeeplCredentials(Parameters):
    auth_key: Annotated[
        StrictStr | None,
        Field(default=None, max_length=512, description="API key, for clients without the header."),
    ]


class TranslationParameters(DeeplCredentials):
    """Parameters of texts and of documents."""

    target_lang: Code = Field(description="Language to translate into.", examples=["DE"])
    source_lang: OptionalCode = Field(
        default=None, description="Language of the text; detected if absent.", examples=["EN"]
    )
    formality: Formality = Field(default=None, description=FORMALITY)
    glossary_id: OptionalText = Field(default=None, description=GLOSSARY)
    glossary_ids: GlossaryIds = Field(
        default=None, description="Up to 5 glossaries; the first that has a term counts."
    )
    style_id: Unsupported = None
    translation_memory_id: Unsupported = None

    @property
    def glossaries(self) -> list[str]:
        """The ids of the glossaries. Raises InvalidRequest where both parameters are given."""
        if self.glossary_id and self.glossary_ids:
            raise InvalidRequest("'glossary_id' and 'glossary_ids' cannot be used together.")
        return [self.glossary_id] if self.glossary_id else list(self.glossary_ids or ())


class DeeplParameters(TranslationParameters):
    text: Texts = Field(description="Texts to translate.", examples=[["Hello, world!"]])
    split_sentences: Annotated[
        Literal["0", "1", "nonewlines"] | None, BeforeValidator(_text_of)
    ] = Field(
        default=None,
        description="`0` takes each text as one sentence; `nonewlines` does not split at line ends.",
    )
    tag_handling: Annotated[Literal["xml", "html"] | None, BeforeValidator(_text_of)] = Field(
        default=None, description="Markup in the texts."
    )
    ignore_tags: Tags = Field(
        default=frozenset(), description="Elements whose content is not translated."
    )
    splitting_tags: Tags = Field(
        default=frozenset(), description="XML elements that end a sentence."
    )
    non_splitting_tags: Tags = Field(
        default=frozenset(), description="XML elements that do not end a sentence."
    )
    outline_detection: OptionalBool = Field(
        default=None,
        description="Whether XML elements that hold whole texts end a sentence; the default is "
        "true.",
    )
    model_type: Annotated[
        Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None,
        BeforeValidator(_text_of),
    ] = Field(
        default=None,
        description="The first two rerank the translations with the reverse direction, where the "
        "model has it; null leaves it to the server.",
    )
    context: OptionalText = Field(
        default=None,
        description="No effect: sentences are translated one by one. Rejected with `strict`.",
    )
    strict: bool = Field(
        default=False, description="Reject `context` and `prefer_...` instead of passing them."
    )
    custom_instructions: Unsupported = None


class DeeplLanguagesParameters(DeeplCredentials):
    type: Annotated[
        Literal["source", "target"], BeforeValidator(lambda value: value or "source")
    ] = Field(default="source", description="List of source or of target languages.")


class DeeplResourceParameters(DeeplCredentials):
    resource: Literal[
        "translate_text",
        "translate_document",
        "glossary",
        "voice",
        "write",
        "style_rules",
        "translation_memory",
    ] = Field(description="Part of DeepL's interface.", examples=["translate_text"])


class DocumentParameters(TranslationParameters, UploadParameters):
    output_format: OptionalText = Field(
        default=None,
        description="Format of the translated file. Rejected, unless a file of this kind is "
        "written so.",
    )


class DocumentKey(DeeplCredentials):
    document_key: StrictStr = Field(
        max_length=256,
        description="Key from the answer to the upload.",
        examples=["2c6f0b9d4e7a4c0f"],
    )


ENTRIES_EXAMPLE = "battery\tAkku\ndevice\tGerät"
Format = Annotated[Literal["tsv", "csv"], BeforeValidator(lower_case)]


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
