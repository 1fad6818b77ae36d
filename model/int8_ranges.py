"""The ranges of int8 weights: the one rule from which PyTorch and the CPU backend take the scales of a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
_BLOCK = 64
_CLOSE = 1e-6
"""Relative to the largest magnitude: products of an integer and a scale are rounded by 2e-7."""


def row_ranges(weight: Float32) -> Float32:
    """Returns the magnitude of each row of a matrix (N, K) that becomes 127, (N,): the largest magnitude of the row.

    The weights of an int8 file with one scale for a matrix (Firefox's) are multiples of a 127th of the matrix's largest
    magnitude. All rows of such a matrix have this range, so that every weight becomes the integer of the file again.
    """
    ranges: Float32 = np.abs(np.maximum(weight.max(axis=1), -weight.min(axis=1)))
    top = ranges.max()
    if top > 0 and all(_are_multiples(weight[row : row + _BLOCK], top) for row in range(0, len(weight), _BLOCK)):
        ranges.fill(top)
    return ranges


def _are_multiples(weights: Float32, top: np.float32) -> bool:
    step = top / np.float32(127)
    return bool((np.abs(weights - np.rint(weights / step) * step) <= np.float32(_CLOSE) * top).all())
