"""How well the place of a word can be read from its vector: a linear regression, tested on other sentences. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FOLDS = 4
_RIDGE = 0.1
"""Penalty of the regression, as a share of the mean variance of a sentence's vectors times the number of vectors."""


def position_fit(vectors: Sequence[NDArray[np.float32]], places: Sequence[NDArray[np.int64]]) -> float:
    """Returns R2, the share of the variance of the places that the regression explains on sentences that it has not
    seen: 1 is perfect, 0 is as good as the mean place, below 0 is worse.

    `vectors` (S, d_model) and `places` (S,) of each sentence; at least FOLDS sentences.
    """
    error = total = 0.0
    everything = np.concatenate(places)
    for fold in range(FOLDS):
        seen = [i for i in range(len(vectors)) if i % FOLDS != fold]
        rest = [i for i in range(len(vectors)) if i % FOLDS == fold]
        x, y = _joined(vectors, seen), _joined(places, seen)
        centre, mean = x.mean(axis=0), y.mean()
        x = x - centre
        # The dual form: there are fewer vectors than features in wide models.
        gram = x @ x.T
        penalty = _RIDGE * np.trace(gram) / len(x) + 1e-9
        weights = np.linalg.solve(gram + penalty * np.eye(len(x)), y - mean)
        predicted = (_joined(vectors, rest) - centre) @ (x.T @ weights) + mean
        error += float(((predicted - _joined(places, rest)) ** 2).sum())
        total += float(((_joined(places, rest) - everything.mean()) ** 2).sum())
    return 1 - error / total if total else 0.0


def _joined(arrays: Sequence[NDArray[np.generic]], numbers: Sequence[int]) -> NDArray[np.float64]:
    return np.concatenate([arrays[i] for i in numbers]).astype(np.float64)
