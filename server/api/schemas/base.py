"""Base classes and field types that the models of several routes share."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import orjson
from fastapi import UploadFile
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    WithJsonSchema,
)

from model.model_folder import MAX_BEAM, MAX_LENGTH_PENALTY
from model.symbols import FORMAL, INFORMAL
from server.errors import InvalidRequest
from server.glossaries.types import TERM_CHARACTERS

HEAD_MASK_LIMIT = 4096
"""Longest value of `masked_heads`, in characters."""
HEAD = re.compile(r"(cross|encoder|decoder)\.([0-9]{1,3})\.([0-9]{1,3})")
Heads = tuple[tuple[str, int, int], ...]
"""Kind, layer and head of each head."""


def lower_case(value: Any) -> Any:
    """Returns text stripped and in lower case; other values unchanged."""
    return value.strip().lower() if isinstance(value, str) else value


def none_if_blank(value: Any) -> Any:
    """Returns None for blank text, which forms send for absent fields; other values unchanged."""
    return None if isinstance(value, str) and not value.strip() else value


def list_of_one(value: Any) -> Any:
    """Returns text as a list of one; other values unchanged."""
    return [value] if isinstance(value, str) else value


def json_pairs(value: Any) -> Any:
    """Returns pairs of texts (an object, lists of two, or JSON of these) as objects with `source`
    and `target`. Raises ValueError."""
    # of a multipart form
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        [value] = value
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise ValueError("must be valid JSON.") from None
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, list):
        if not all(
            isinstance(pair, dict) or (isinstance(pair, list | tuple) and len(pair) == 2)
            for pair in value
        ):
            raise ValueError("must be a list of pairs, each of two texts.")
        return [
            pair if isinstance(pair, dict) else {"source": pair[0], "target": pair[1]}
            for pair in value
        ]
    return None if value == "" else value


def read_heads(text: Any, name: str = "masked_heads") -> Heads:
    """Returns the heads of "kind.layer.head,..." or of a list of such texts, sorted and distinct.
    Raises InvalidRequest with the name of the parameter."""
    if isinstance(text, list):
        text = ",".join(map(str, text))
    form = InvalidRequest(f"{name} must look like cross.0.1,encoder.2.3 (kind.layer.head from 0).")
    if not isinstance(text, str) or len(text) > HEAD_MASK_LIMIT:
        raise form
    matches = [HEAD.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    heads = {(match[1], int(match[2]), int(match[3])) for match in matches if match}
    if None in matches:
        raise form
    return tuple(sorted(heads))


class Parameters(BaseModel):
    """Base class of request parameters. Unknown fields are ignored, because clients send many."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class UploadParameters(Parameters):
    """Base class of the fields of a multipart form with one file."""

    file: UploadFile = Field(description="The file.")


class Answer(BaseModel):
    """Base class of response bodies. Every required field has an example or a model, so that a body
    has an example."""

    model_config = ConfigDict(frozen=True)


class ErrorAnswer(Answer):
    error: str = Field(
        description="One sentence.", examples=["Invalid request: missing q parameter"]
    )


Code = Annotated[StrictStr, Field(min_length=1, max_length=32, examples=["en"])]
Key = Annotated[
    StrictStr | None,
    Field(default=None, max_length=512, description="API key, if the server requires one."),
]
OptionalCode = Annotated[Code | None, BeforeValidator(none_if_blank)]
OptionalText = Annotated[StrictStr | None, BeforeValidator(none_if_blank)]
Texts = Annotated[list[StrictStr], BeforeValidator(list_of_one)]
OptionalInt = Annotated[int | None, BeforeValidator(none_if_blank)]
OptionalBool = Annotated[bool | None, BeforeValidator(none_if_blank)]
OptionalFloat = Annotated[
    Annotated[float, Field(allow_inf_nan=False)] | None, BeforeValidator(none_if_blank)
]
BeamSize = Annotated[
    Annotated[int, Field(ge=1, le=MAX_BEAM)] | None,
    BeforeValidator(none_if_blank),
    Field(
        description="Beam width; 1 is greedy search. The default is the model's, or 1 if it states "
        "none."
    ),
]
LengthPenalty = Annotated[
    Annotated[float, Field(ge=0, le=MAX_LENGTH_PENALTY, allow_inf_nan=False)] | None,
    BeforeValidator(none_if_blank),
    Field(
        description="GNMT length penalty alpha; the default is the model's, or 0.6 if it states "
        "none."
    ),
]
HeadMask = Annotated[
    Heads | None,
    BeforeValidator(read_heads),
    WithJsonSchema({"anyOf": [{"type": "string", "maxLength": HEAD_MASK_LIMIT}, {"type": "null"}]}),
    Field(
        default=None,
        description="Attention heads to switch off: kind.layer.head, separated by commas, as in "
        "`cross.0.1,encoder.2.3`.",
    ),
]


Formality = Annotated[
    Literal["default", "more", "less", "prefer_more", "prefer_less"] | None,
    BeforeValidator(none_if_blank),
    BeforeValidator(lower_case),
]
FORMALITY = (
    "Form of address, if the model was trained with it. Otherwise `more` and `less` are rejected; "
    "`prefer_more` and `prefer_less` pass."
)
SYMBOLS = {"more": FORMAL, "prefer_more": FORMAL, "less": INFORMAL, "prefer_less": INFORMAL}
"""Symbol of each form of address in the source of a model."""


def address_form(formality: str | None, strict: bool = False) -> dict[str, Any]:
    """Returns the fields of a TranslationRequest for `formality`. With `strict` a form of address
    that the model does not know is an error."""
    required = strict or formality in ("more", "less")
    return {"formality": SYMBOLS.get(formality or ""), "formality_required": required}


INLINE_PAIRS = 1_000
"""Most pairs of a glossary that is part of a request."""

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
