"""Words with a raised or lowered digit: formulas, and words with the number of a note."""

from __future__ import annotations

LETTERS_OF_A_UNIT = 2
"""Most letters of a unit or a variable, such as m² and x₁."""


def is_formula(letters: str) -> bool:
    """Returns whether the letters beside a raised or lowered digit are a unit, a variable or a formula (CaCO₃). Longer words
    in small letters have the number of a note."""
    return len(letters) <= LETTERS_OF_A_UNIT or any(map(str.isupper, letters[1:]))
