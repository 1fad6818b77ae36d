"""Where the model looked: one teacher-forced pass with explicit softmax, for a source and a target that are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from model.inference import head_gates, pad_ids
from model.transformer import Transformer

CANDIDATES = 8
"""Likeliest tokens that are kept for every place of the target."""


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """Weights of every head, float32, with T = len(target) + 1 queries: row t produced target token t, the last row the
    end of sentence; the keys of `decoder` are the start, then the target.

    `token_scores` (T,) are natural log-probabilities of the target's tokens, then of the end of sentence.
    `candidate_ids` and `candidate_scores` (T, C) are the likeliest tokens at each place, best first.
    """

    cross: NDArray[np.float32]  # (L, H, T, S)
    encoder: NDArray[np.float32]  # (L, H, S, S)
    decoder: NDArray[np.float32]  # (L, H, T, T)
    token_scores: NDArray[np.float32]
    candidate_ids: NDArray[np.int64]
    candidate_scores: NDArray[np.float32]


@torch.inference_mode()
def attention_maps(
    transformer: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    masked_heads: Sequence[tuple[str, int, int]] = (),
    candidates: int = CANDIDATES,
) -> AttentionMaps:
    """Attention of a pair: `source` ids as the encoder reads them, `target` ids without start and end of sentence.

    A causal decoder computes in parallel exactly the weights that it had when it decoded token by token (section
    3.2.3), so these are the weights that produced the target. Raises ValueError for lengths the model cannot read, ids
    outside its vocabulary and heads it does not have.
    """
    config = transformer.config
    _check("source", source, config.source_vocab_size or config.vocab_size, config.max_length, least=1)
    _check("target", target, config.vocab_size, config.max_length - 1, least=0)
    parameter = next(transformer.parameters())
    ids, mask = pad_ids([source], config.pad_id, parameter.device)  # (1, S)
    inputs = torch.tensor([[config.decoder_start_id, *target]], device=parameter.device)  # (1, T)
    gates = head_gates(transformer, [tuple(masked_heads)]) if masked_heads else None
    logits, weights = transformer.eval().forward_with_weights(ids, mask, inputs, gates)
    scores = torch.log_softmax(logits[0].float(), dim=-1)  # (T, V)
    written = torch.tensor([*target, config.eos_id], device=parameter.device)
    best, best_ids = scores.topk(min(candidates, scores.shape[-1]), dim=-1)  # (T, C)
    return AttentionMaps(
        cross=_array(weights.cross[:, 0]),
        encoder=_array(weights.encoder[:, 0]),
        decoder=_array(weights.decoder[:, 0]),
        token_scores=_array(scores.gather(1, written[:, None])[:, 0]),
        candidate_ids=best_ids.cpu().numpy(),
        candidate_scores=_array(best),
    )


def _array(tensor: torch.Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.float().cpu().numpy())


def _check(name: str, ids: Sequence[int], vocabulary: int, longest: int, *, least: int) -> None:
    if not least <= len(ids) <= longest:
        raise ValueError(f"The {name} has {len(ids)} tokens; the model reads {least} to {longest}.")
    if any(not 0 <= token < vocabulary for token in ids):
        raise ValueError(f"The {name} holds an id outside the vocabulary of {vocabulary}.")
