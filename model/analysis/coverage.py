"""Finds parts of a source sentence that no target word attended to. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

from model.analysis.attention_alignment import Weights, Word

FULL = 0.5
"""A source word that receives less attention than this, summed over the target tokens, counts as a gap."""


def received_attention(soft: Weights, source: Sequence[Word], tokens: int) -> list[float]:
    """Returns the attention that each source word with letters or digits received, summed over its pieces and over the
    first `tokens` rows of a soft alignment (T, S). The end of sentence attends to everything and is left out."""
    totals = soft[:tokens].sum(axis=0)
    return [
        float(totals[list(word.pieces)].sum())
        for word in source
        if not word.special and any(map(str.isalnum, word.text))
    ]


def largest_gap(received: Sequence[float]) -> float:
    """Returns the largest sum of FULL minus the received attention over words in a row, at least 0 (Kadane's algorithm).

    A single word gives at most FULL, so that a larger gap has several words.
    """
    largest = current = 0.0
    for attention in received:
        current = max(0.0, current + FULL - attention)
        largest = max(largest, current)
    return largest
