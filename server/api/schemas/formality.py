"""The parameter `formality` of translations, with DeepL's values."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from model.symbols import FORMAL, INFORMAL
from server.api.schemas.base import lower_case, none_if_blank

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
    """Returns the fields of a TranslationRequest for the parameter. With `strict` every form of
    address that the model does not know is an error."""
    required = strict or formality in ("more", "less")
    return {"formality": SYMBOLS.get(formality or ""), "formality_required": required}
