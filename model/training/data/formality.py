"""How a sentence addresses its reader, told from its words: du or Sie, tu or vous, tú or usted."""

from __future__ import annotations

import re

from model.symbols import FORMAL, INFORMAL

# German pronouns of polite address differ from "she" and "they" by their capital alone, which says nothing where a
# sentence begins: there they do not count.
_POLITE_GERMAN = r"(?<![.!?:;…\"„“»«›‹'(-])(?<!^)[ ](?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b"
_FORMAL = {
    "de": re.compile(_POLITE_GERMAN),
    "fr": re.compile(r"\b(?:vous|votre|vos)\b", re.IGNORECASE),
    "es": re.compile(r"\b(?:usted(?:es)?|[uv]ds?\.)", re.IGNORECASE),
}
_INFORMAL = {
    "de": re.compile(r"\b(?:du|dich|dir|dein(?:e[mnrs]?)?|euch|euer|eure[mnrs]?)\b", re.IGNORECASE),
    "fr": re.compile(r"\b(?:tu|te|toi|ton|ta|tes)\b|\bt['’]", re.IGNORECASE),
    "es": re.compile(r"\b(?:tú|te|ti|contigo|tus?|tuy[oa]s?|vosotr[oa]s|vuestr[oa]s?)\b", re.IGNORECASE),
}


def form_of_address(text: str, language: str) -> str | None:
    """The symbol FORMAL or INFORMAL for a text in German, French or Spanish; None where its words do not settle it."""
    if language not in _FORMAL:
        return None
    formal, informal = (patterns[language].search(text) is not None for patterns in (_FORMAL, _INFORMAL))
    if formal == informal:
        return None
    return FORMAL if formal else INFORMAL
