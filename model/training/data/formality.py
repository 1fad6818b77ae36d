"""The form of address of a sentence, detected by its pronouns: du or Sie, tu or vous, tú or usted."""

from __future__ import annotations

import re

from model.symbols import FORMAL, INFORMAL

# German pronouns of formal address differ from "she" and "they" only by their capital letter. At the beginning of a sentence
# every word has one, so pronouns there are not counted.
_FORMAL_GERMAN = r"(?<![.!?:;…\"„“»«›‹'(-])(?<!^)[ ](?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b"
_FORMAL = {
    "de": re.compile(_FORMAL_GERMAN),
    "fr": re.compile(r"\b(?:vous|votre|vos)\b", re.IGNORECASE),
    "es": re.compile(r"\b(?:usted(?:es)?|[uv]ds?\.)", re.IGNORECASE),
}
_INFORMAL = {
    "de": re.compile(r"\b(?:du|dich|dir|dein(?:e[mnrs]?)?|euch|euer|eure[mnrs]?)\b", re.IGNORECASE),
    "fr": re.compile(r"\b(?:tu|te|toi|ton|ta|tes)\b|\bt['’]", re.IGNORECASE),
    "es": re.compile(r"\b(?:tú|te|ti|contigo|tus?|tuy[oa]s?|vosotr[oa]s|vuestr[oa]s?)\b", re.IGNORECASE),
}


LANGUAGES = tuple(_FORMAL)
"""Languages whose form of address is detected."""


def form_of_address(text: str, language: str) -> str | None:
    """Returns the symbol FORMAL or INFORMAL for a text in German, French or Spanish.

    Returns None for other languages and for texts with pronouns of neither or of both forms.
    """
    if language not in _FORMAL:
        return None
    formal, informal = (patterns[language].search(text) is not None for patterns in (_FORMAL, _INFORMAL))
    if formal == informal:
        return None
    return FORMAL if formal else INFORMAL
