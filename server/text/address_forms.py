"""The form of address of a text, by its pronouns: what says whether DeepL's `formality` had an effect."""

from __future__ import annotations

import re
from typing import Literal

from server.text.languages import primary_subtag

_FORMS = {
    "de": (
        r"(?<=[^.!?:»“\n]\s)(?:Sie|Ihnen|Ihre?[mnrs]?)\b",  # at the beginning of a sentence also "she" and "her"
        r"(?i)\b(?:du|dir|dich|deine?[mnrs]?|euch|euer|eure[mnrs]?)\b",
    ),
    "fr": (r"(?i)\b(?:vous|votre|vos)\b", r"(?i)\b(?:tu|te|toi|ton|ta|tes)\b|\bt['’]"),
    "es": (r"(?i)\busted(?:es)?\b", r"(?i)\b(?:tú|te|ti|tus?|contigo|vosotr[oa]s|vuestr[oa]s?)\b"),
}
"""Formal and informal pronouns of languages."""


def address_form(text: str, language: str) -> Literal["formal", "informal"] | None:
    """Returns the form of address of a text in a language; None without pronouns of address, or with those of both."""
    formal, informal = _FORMS.get(primary_subtag(language), ("(?!)", "(?!)"))
    found = re.search(formal, text) is not None, re.search(informal, text) is not None
    return "formal" if found == (True, False) else "informal" if found == (False, True) else None
