"""Attention weights as JSON. With five decimals every number from 0 to 1 has the same width, so that NumPy writes them all
at once: ten times as fast as one by one, and the event loop is free again sooner."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

DIGITS = 5
_ONE = 10**DIGITS
_WIDTH = 8
"""Characters of a number with the comma after it: 0.12345,"""
_MARGIN = 4
"""Room before and after a row for the brackets of all levels, the rest of it spaces."""


def fits(weights: NDArray[np.float32]) -> bool:
    """Whether every weight is a number from 0 to 1, give or take a rounding."""
    return bool(weights.size and weights.min() >= -0.5 / _ONE and weights.max() <= 1 + 0.5 / _ONE)


def nested_lists(weights: NDArray[np.float32]) -> bytes:
    """Weights (L, H, T, S) as a JSON array of arrays of arrays of arrays, five decimals each. They must fit."""
    layers, heads, queries, keys = weights.shape
    text = np.full((layers, heads, queries, _MARGIN + _WIDTH * keys + _MARGIN), ord(" "), dtype=np.uint8)
    numbers = np.rint(weights * np.float32(_ONE)).astype(np.int32)
    end = _MARGIN + _WIDTH * keys
    text[..., _MARGIN:end] = _numerals().take(numbers, mode="clip").view(np.uint8)
    text[..., _MARGIN - 1], text[..., end - 1], text[..., end] = b"[],"
    text[:, :, 0, _MARGIN - 2], text[:, :, -1, end], text[:, :, -1, end + 1] = b"[],"
    text[:, 0, 0, _MARGIN - 3], text[:, -1, -1, end + 1], text[:, -1, -1, end + 2] = b"[],"
    text[0, 0, 0, _MARGIN - 4], text[-1, -1, -1, end + 2] = b"[]"
    return text.tobytes()


@cache
def _numerals() -> NDArray[np.uint64]:
    """Eight characters for each of 0.00000 to 1.00000, as one integer."""
    values = np.arange(_ONE + 1)
    text = np.empty((_ONE + 1, _WIDTH), dtype=np.uint8)
    text[:, 0] = ord("0") + values // _ONE
    text[:, 1] = ord(".")
    for place in range(DIGITS):
        text[:, 2 + place] = ord("0") + values // 10 ** (DIGITS - 1 - place) % 10
    text[:, -1] = ord(",")
    return text.view(np.uint64)[:, 0]
