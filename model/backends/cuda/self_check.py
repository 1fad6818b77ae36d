"""Self-check of the CUDA backend: replayed steps must agree with plain PyTorch before the backend serves requests."""

from __future__ import annotations

import copy

import numpy as np
import torch

from model.backends.cuda.graphs import CAPTURE_AFTER, GraphedBackend
from model.backends.torch.backend import TorchBackend

_FACTOR, _FLOOR = 3.0, 1e-3
"""Log-probabilities may be this many times as far from those in float32 as plain steps in the same precision are, and
_FLOOR for the order of sums."""
_CANDIDATES = (1, 8)
"""Of greedy and of beam search."""


@torch.inference_mode()
def disagreement(backend: GraphedBackend) -> str | None:
    """Decodes a few tokens with `backend`, with plain steps and with plain steps in float32, and compares the
    log-probabilities.

    Returns None if those of the backend are as exact as the plain ones, else a sentence that says how they differ.
    """
    slots = [0, 1, 2][: backend.slots]
    transformer, config = backend.transformer, backend.transformer.config
    compared = [backend, TorchBackend(transformer, len(slots))]
    if next(transformer.parameters()).dtype != torch.float32:
        compared.append(TorchBackend(copy.deepcopy(transformer).float(), len(slots)))
    sources = [[token % config.vocab_size for token in range(1, 6 + 3 * slot)] for slot in slots]
    for each in compared:
        each.prefill(sources, slots)
    errors = np.zeros(2)  # of the backend and of plain steps
    for candidates in _CANDIDATES:
        for step in range(CAPTURE_AFTER + 1):
            tokens = [(7 * step + slot) % config.vocab_size for slot in slots]
            scores = [each.step(slots, tokens, candidates, tokens).scores[:, 0] for each in compared]
            errors = np.maximum(errors, [np.abs(found - scores[-1]).max() for found in scores[:2]])
        for each in compared:
            each.reorder(slots[1:], slots[:-1])
    backend.free(slots)
    if not backend.captured:
        return "No step was captured."
    # NaN if one of them is
    if errors[0] <= _FACTOR * errors[1] + _FLOOR:
        return None
    return f"Replayed steps differ from float32 by {errors[0]:.3g}, plain ones by {errors[1]:.3g}."
