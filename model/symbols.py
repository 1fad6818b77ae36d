"""Pieces of a vocabulary that are not text: placeholders of masked spans, markup, form of address,
sentence boundaries.

All of them are user-defined symbols of SentencePiece: written in a text they become one piece, and
they are decoded as they are written. A vocabulary may lack them.
"""

from __future__ import annotations

import re
from typing import Final

PLACEHOLDERS: Final = tuple(f"<ph{number}>" for number in range(1, 10))
"""Stand for spans that are copied to the translation unchanged; a span that occurs again has the
same number."""
OPENING: Final = "<g>"
CLOSING: Final = "</g>"
"""Around a marked-up span; the n-th opening symbol of the source belongs to the n-th of the
target."""
FORMAL: Final = "<formal>"
INFORMAL: Final = "<informal>"
"""First in a source, after the language tag: how the translation addresses its reader (Sie, vous,
usted; du, tu, tú)."""
SEPARATOR: Final = "<sep>"
"""Between sentences that are translated together."""
BACK_TRANSLATED: Final = "<bt>"
"""First in a source that a model wrote (Caswell et al. 2019); not used in translation."""
SPARE: Final = "<spare>"
"""Without a meaning yet: a vocabulary cannot grow later."""

SYMBOLS: Final = (
    *PLACEHOLDERS,
    OPENING,
    CLOSING,
    FORMAL,
    INFORMAL,
    SEPARATOR,
    BACK_TRANSLATED,
    SPARE,
)
"""All of them, in the order of their ids."""

# German pronouns of formal address differ from "she" and "they" only by their capital letter. At
# the beginning of a sentence every word has one, so pronouns there are not counted. A French word
# in -ez with a capital letter may be a name.
_FORMAL_GERMAN = r"(?<![.!?:;…\"„“»«›‹'(-])(?<!^)[ ](?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b"
_FORMAL = {
    "de": re.compile(_FORMAL_GERMAN),
    "fr": re.compile(
        r"\b(?:vous|votre|vos|faites|dites)\b"
        r"|(?:^\W*|\b(?-i:(?=[a-z])))(?!(?:ch|ass)ez\b)[^\W\d_]{2,}ez\b",
        re.IGNORECASE,
    ),
    "es": re.compile(r"\b(?:usted(?:es)?|[uv]ds?\.)", re.IGNORECASE),
}
_INFORMAL = {
    "de": re.compile(r"\b(?:du|dich|dir|dein(?:e[mnrs]?)?|euch|euer|eure[mnrs]?)\b", re.IGNORECASE),
    "fr": re.compile(r"\b(?:tu|te|toi|ton|ta|tes)\b|\bt['’]", re.IGNORECASE),
    "es": re.compile(
        r"\b(?:tú|te|ti|contigo|tus?|tuy[oa]s?|vosotr[oa]s|vuestr[oa]s?)\b", re.IGNORECASE
    ),
}
ADDRESS_LANGUAGES: Final = tuple(_FORMAL)
"""Languages whose form of address is detected."""


def forms_of_address(text: str, language: str) -> frozenset[str]:
    """Returns FORMAL and INFORMAL, as far as words of a text show them (du or Sie, tu or vous, tú
    or usted). Languages other than German, French and Spanish show none."""
    language = language.partition("-")[0]
    return frozenset(
        [
            form
            for form, patterns in ((FORMAL, _FORMAL), (INFORMAL, _INFORMAL))
            if language in patterns and patterns[language].search(text)
        ]
    )


def form_of_address(text: str, language: str) -> str | None:
    """Returns FORMAL or INFORMAL if a text shows this form only (`forms_of_address`)."""
    forms = forms_of_address(text, language)
    return min(forms) if len(forms) == 1 else None
