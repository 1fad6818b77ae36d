"""Self-check of the CUDA backend: replayed steps must agree with plain PyTorch before the backend serves requests."""

from __future__ import annotations

import numpy as np
import torch

from model.backends.cuda.graphs import CAPTURE_AFTER, GraphedBackend
from model.backends.torch.backend import TorchBackend

_TOLERANCE_FLOAT32, _TOLERANCE_HALF = 1e-2, 0.2
"""Largest accepted difference of log-probabilities, in float32 and in half precision."""


@torch.inference_mode()
def disagreement(backend: GraphedBackend) -> str | None:
    """Decodes a few tokens with `backend` and with a TorchBackend and compares the log-probabilities.

    Returns None if they agree up to rounding, else a sentence that says how they differ.
    """
    slots = [0, 1, 2][: backend.slots]
    plain = TorchBackend(backend.transformer, len(slots))
    config = backend.transformer.config
    sources = [[token % config.vocab_size for token in range(1, 6 + 3 * slot)] for slot in slots]
    for each in (backend, plain):
        each.prefill(sources, slots)
    differences = []
    for step in range(CAPTURE_AFTER + 4):
        tokens = [(7 * step + slot) % config.vocab_size for slot in slots]
        left, right = (each.step(slots, tokens, 1, tokens) for each in (backend, plain))
        differences.append(np.abs(left.scores - right.scores).max())
    backend.free(slots)
    if not backend.captured:
        return "No step was captured."
    exact = next(backend.transformer.parameters()).dtype == torch.float32
    tolerance = _TOLERANCE_FLOAT32 if exact else _TOLERANCE_HALF
    worst = float(np.max(differences))  # NaN if one of them is
    return None if worst < tolerance else f"Replayed steps differ from plain ones by {worst:.3g}."
