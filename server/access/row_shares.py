"""The rows that admission charges for a sentence: of those that it declares
(`server.translation.sentence.declared`), as large a share as such sentences lately used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

START: Mapping[str, float] = {
    "beam": 1.0,
    "list": 1.0,
    "reverse": 1.0,
    "attention": 1.0,
    "wider": 0.5,
}
"""The shares before any sentence was translated, by form; 0 for other forms."""
RECENT = 1 / 256
"""The weight of a sentence in the share of the declared rows that is used."""


class RowShares:
    """The share of the declared rows of each form that sentences lately used."""

    def __init__(self) -> None:
        self._shares = dict(START)

    def rows(self, declared: Mapping[Any, int], look: float = 1.0) -> float:
        """Returns how many of the declared rows a sentence is expected to need, where the attention
        of a translation takes as long as `look` rows."""
        shares = self._shares
        used = {form: most * shares[form] for form, most in declared.items() if form in shares}
        return sum(used.values()) + (look - 1.0) * (
            used.get("links", 0.0) + used.get("attention", 0.0)
        )

    def note(self, declared: Mapping[Any, int], spent: Mapping[Any, int]) -> None:
        """Takes the rows of a sentence into account."""
        shares = self._shares
        for form in spent:
            shares.setdefault(form, 0.0)
        for form, share in shares.items():
            if most := declared.get(form):
                shares[form] = share + RECENT * (spent.get(form, 0) / most - share)
