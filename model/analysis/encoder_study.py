"""The effect of the order of words on an encoder, in float32 by NumPy: an engine cannot leave out
the positions.

The study runs in a process of its own: each line of standard input is the arguments of `study` in JSON,
each line of standard output its result.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from model.model_folder import read_folder
from model.numpy_encoder import Float32, NumpyEncoder
from model.weight_files import SafetensorFiles, position_table, weight_files

_ROWS = Path(__file__).with_name("sample_sentences.tsv").read_text(encoding="utf-8").splitlines()
SENTENCES = {
    code: sentences for code, *sentences in zip(*(row.split("\t") for row in _ROWS), strict=True)
}
"""Everyday sentences by language code. Those of one number are translations of each other."""
FOLDS = 4
_RIDGE = 0.1
"""Penalty of the regression, as a share of the vectors' mean squared length."""
Samples = list[tuple[list[int], list[int]]]


def study(folder: str, ids: list[int], order: list[int], samples: Samples) -> dict[str, Any]:
    """Returns `layers`, `order` and `position_fit` of GET /encoder for the tokens `ids`, which
    `order` permutes. `samples` are other sentences: their tokens, and the places of those with
    text."""
    read = read_folder(Path(folder))
    tensors = SafetensorFiles(weight_files(read.path))
    encoder, places = NumpyEncoder(read.model, _Held(tensors)), position_table(read.model, tensors)
    none = np.zeros_like(places)
    moved = {
        "moved": moves(encoder, ids, order, places),
        "moved_without_positions": moves(encoder, ids, order, none),
    }
    fits = {
        "with_positions": _fits(encoder, samples, places),
        "without_positions": _fits(encoder, samples, none),
    }
    fit = {"sentences": len(samples), **fits} if samples else None
    return {
        "layers": read.model.encoder_layers,
        "order": {"pieces": order, **moved},
        "position_fit": fit,
    }


class _Held(dict[str, Float32]):
    """Reads each tensor once."""

    def __init__(self, tensors: SafetensorFiles) -> None:
        self._tensors = tensors

    def __missing__(self, name: str) -> Float32:
        self[name] = self._tensors[name]
        return self[name]


def moves(
    encoder: NumpyEncoder, ids: list[int], order: list[int], positions: Float32
) -> list[float]:
    """Returns by how much each token's output changes in another `order`, relative to its
    length."""
    first, second = encoder.run([ids, [ids[i] for i in order]], positions)[-1]
    second = second[np.argsort(order)]  # in the order of `ids` again
    distances: list[float] = (_lengths(first - second) / _lengths(first)).tolist()
    return distances


def _lengths(x: Float32) -> Float32:
    lengths: Float32 = np.sqrt((x * x).sum(axis=-1))
    return lengths


def _fits(encoder: NumpyEncoder, samples: Samples, positions: Float32) -> list[float]:
    if not samples:
        return []
    layers = encoder.config.encoder_layers + 1
    runs = [
        [state[0, places] for state in encoder.run([ids], positions)[:layers]]
        for ids, places in samples
    ]
    sentences = np.concatenate([np.full(len(places), i) for i, (_, places) in enumerate(samples)])
    places = np.concatenate([places for _, places in samples])
    return [
        position_fit(np.concatenate(states), places, sentences % FOLDS)
        for states in zip(*runs, strict=True)
    ]


def position_fit(vectors: Float32, places: NDArray[np.int64], folds: NDArray[np.int64]) -> float:
    """Returns R2 of the places (N,) that a linear regression predicts from the vectors (N, d_model)
    of one fold after it was fitted on the others: 1 is perfect, 0 is as good as the mean place."""
    x, error = vectors.astype(np.float64), 0.0
    for fold in range(FOLDS):
        seen, unseen = folds != fold, folds == fold
        centre, mean = x[seen].mean(axis=0), places[seen].mean()
        rows = x[seen] - centre
        gram = rows @ rows.T  # the dual form: there are fewer vectors than features in wide models
        penalty = (_RIDGE * np.trace(gram) / len(gram) + 1e-9) * np.eye(len(gram))
        weights = rows.T @ np.linalg.solve(gram + penalty, places[seen] - mean)
        error += float(np.square((x[unseen] - centre) @ weights + mean - places[unseen]).sum())
    return 1 - error / float(np.square(places - places.mean()).sum())


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(orjson.dumps(study(**orjson.loads(line))) + b"\n")
        sys.stdout.buffer.flush()
