"""Sinusoidal positional encodings, in two layouts. NumPy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def sinusoidal_table(length: int, d_model: int, *, half: bool = False) -> NDArray[np.float32]:
    """Returns sinusoidal encodings (length, d_model) (the paper, section 3.5).

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos of the same angle. With
    `half` the sines fill the first half of the features and the cosines the second half
    (tensor2tensor, Marian).
    """
    rates = 10000.0 ** (-2.0 * np.arange(d_model // 2, dtype=np.float64) / d_model)
    angles = np.arange(length, dtype=np.float64)[:, None] * rates  # (length, d_model / 2)
    if half:
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    return (
        np.stack([np.sin(angles), np.cos(angles)], axis=2)
        .reshape(length, d_model)
        .astype(np.float32)
    )
