"""Base classes and field types that the models of several routes share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

from model.model_folder import MAX_BEAM, MAX_LENGTH_PENALTY

HEAD_MASK_LIMIT = 4096
"""Longest value of `masked_heads`, in characters."""


def lower_case(value: Any) -> Any:
    """Returns text stripped and in lower case; other values unchanged."""
    return value.strip().lower() if isinstance(value, str) else value


def none_if_blank(value: Any) -> Any:
    """Returns None for text of blanks only; other values unchanged. Forms send empty fields for absent ones."""
    return None if isinstance(value, str) and not value.strip() else value


def none_if_empty(value: Any) -> Any:
    """Returns None for the empty text; other values unchanged."""
    return None if value == "" else value


def none_if_no_text(value: Any) -> Any:
    """Returns text that is not empty unchanged, and None for everything else."""
    return value if isinstance(value, str) and value else None


def list_of_one(value: Any) -> Any:
    """Returns text as a list of one; other values unchanged."""
    return [value] if isinstance(value, str) else value


def number_or_word(value: Any) -> Any:
    """Returns digits as an int and other text in lower case, for parameters such as `head=3` and `head=mean`."""
    if not isinstance(value, str):
        return value
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else value.strip().lower()


class Parameters(BaseModel):
    """Base class of request parameters. Unknown fields are ignored, because clients send many."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Answer(BaseModel):
    """Base class of response bodies. Every required field has an example or a model, so that a body has an example."""

    model_config = ConfigDict(frozen=True)


class ErrorAnswer(Answer):
    error: str = Field(description="One sentence.", examples=["Invalid request: missing q parameter."])


Code = Annotated[StrictStr, Field(min_length=1, max_length=32, examples=["en"])]
Key = Annotated[
    StrictStr | None, Field(default=None, max_length=512, description="API key, if the server requires one.")
]
OptionalCode = Annotated[Code | None, BeforeValidator(none_if_empty)]
OptionalText = Annotated[str | None, BeforeValidator(none_if_no_text)]
OptionalInt = Annotated[int | None, BeforeValidator(none_if_blank)]
OptionalBool = Annotated[bool | None, BeforeValidator(none_if_blank)]
OptionalFloat = Annotated[Annotated[float, Field(allow_inf_nan=False)] | None, BeforeValidator(none_if_blank)]
BeamSize = Annotated[
    Annotated[int, Field(ge=1, le=MAX_BEAM)] | None,
    BeforeValidator(none_if_blank),
    Field(description="Beam width; 1 is greedy search. The default is the model's, or 1 if it states none."),
]
LengthPenalty = Annotated[
    Annotated[float, Field(ge=0, le=MAX_LENGTH_PENALTY, allow_inf_nan=False)] | None,
    BeforeValidator(none_if_blank),
    Field(description="GNMT length penalty alpha; the default is the model's, or 0.6 if it states none."),
]
HeadMask = Annotated[
    StrictStr | None,
    Field(
        default=None,
        max_length=HEAD_MASK_LIMIT,
        description="Attention heads to switch off: kind.layer.head, separated by commas, as in `cross.0.1,encoder.2.3`.",
    ),
]
