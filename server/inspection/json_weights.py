"""Attention weights as JSON. With five decimals every number from 0 to 1 has the same width, so NumPy can write all of
them at once. This is ten times as fast as one number at a time, and occupies the event loop for less time."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

DIGITS = 5
_ONE = 10**DIGITS
_WIDTH = 8
"""Characters of a number and the comma after it: 0.12345,"""
_MARGIN = 4
"""Characters before and after a row: brackets of up to four levels, padded with spaces."""


def in_unit_interval(weights: NDArray[np.float32]) -> bool:
    """Whether every weight is a number that rounds to one from 0 to 1."""
    return bool(weights.size and weights.min() >= -0.5 / _ONE and weights.max() <= 1 + 0.5 / _ONE)


def nested_lists(weights: NDArray[np.float32]) -> bytes:
    """Returns weights (L, H, T, S) as nested JSON arrays with five decimals. All weights must be `in_unit_interval`."""
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
    """Returns the eight characters of each number from 0.00000 to 1.00000, packed into one integer each."""
    values = np.arange(_ONE + 1)
    text = np.empty((_ONE + 1, _WIDTH), dtype=np.uint8)
    text[:, 0] = ord("0") + values // _ONE
    text[:, 1] = ord(".")
    for digit in range(DIGITS):
        text[:, 2 + digit] = ord("0") + values // 10 ** (DIGITS - 1 - digit) % 10
    text[:, -1] = ord(",")
    return text.view(np.uint64)[:, 0]
