"""Pieces of a vocabulary that are not text: placeholders of masked spans, markup, form of address, sentence boundaries.

All of them are user-defined symbols of SentencePiece: written in a text they become one piece, and they are decoded as
they are written. A vocabulary may lack them.
"""

from __future__ import annotations

from typing import Final

PLACEHOLDERS: Final = tuple(f"<ph{number}>" for number in range(1, 10))
"""Stand for spans that are copied to the translation unchanged; a span that occurs again has the same number."""
OPENING: Final = "<g>"
CLOSING: Final = "</g>"
"""Around a marked-up span; the n-th opening symbol of the source belongs to the n-th of the target."""
FORMAL: Final = "<formal>"
INFORMAL: Final = "<informal>"
"""First in a source, after the language tag: how the translation addresses its reader (Sie, vous, usted; du, tu,
tú)."""
SEPARATOR: Final = "<sep>"
"""Between sentences that are translated together."""
BACK_TRANSLATED: Final = "<bt>"
"""First in a source that a model wrote (Caswell et al. 2019); not used in translation."""
SPARE: Final = "<spare>"
"""Without a meaning yet: a vocabulary cannot grow later."""

SYMBOLS: Final = (*PLACEHOLDERS, OPENING, CLOSING, FORMAL, INFORMAL, SEPARATOR, BACK_TRANSLATED, SPARE)
"""All of them, in the order of their ids."""
