"""Results of an attention request: attention weights, token scores, best candidates. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig

Kind = Literal["encoder", "decoder", "cross"]

Head = tuple[str, int, int]
"""(kind, layer, head) with a Kind, counted from 0."""

HeadMask = tuple[Head, ...]
"""Heads whose output is set to 0."""

CANDIDATES = 8
"""Number of best tokens reported for each target position."""


@dataclass(frozen=True, slots=True)
class HeadVectors:
    """Vectors of one head: `query` (T, D), `key` (S, D), `value` (S, D)."""

    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """Attention weights of every head, float32, for T = len(target) + 1 queries.

    Query t generates target token t, the last query the end of sentence. The keys of `decoder` are the start token and
    the target. `token_scores` (T,) are the natural log-probabilities of the target tokens and of the end of sentence.
    `candidate_ids` and `candidate_scores` (T, C) are the most probable tokens at each position, best first. Decoders
    with a recurrence have no heads in `decoder` (L, 0, T, T) and `forget_gates` (L, T) instead: the share of the state
    that a position keeps, averaged over the features. `value_products` are the inner products of what any two heads of
    cross-attention add for a source token with the weight 1 (`model.analysis.contributions`), 0 for masked heads.
    Scores are those among the tokens that the target may have: those of its shortlist, and its own. `outside` are the
    positions of its tokens that are not on the list.
    """

    cross: NDArray[np.float32]  # (L, H, T, S)
    encoder: NDArray[np.float32]  # (L, H, S, S)
    decoder: NDArray[np.float32]  # (L, H, T, T)
    token_scores: NDArray[np.float32]
    candidate_ids: NDArray[np.int64]
    candidate_scores: NDArray[np.float32]
    value_products: NDArray[np.float32]  # (L, S, H, H)
    vectors: HeadVectors | None = None
    forget_gates: NDArray[np.float32] | None = None  # (L, T)
    outside: tuple[int, ...] = ()

    def without_first_token(self, vectors_of: Head | None) -> AttentionMaps:
        """Returns the maps of a target without its first token: its query is removed, and what the other queries
        attend to in it is added to the start token."""
        decoder = np.concatenate(
            [self.decoder[..., 1:, :1] + self.decoder[..., 1:, 1:2], self.decoder[..., 1:, 2:]], -1
        )
        vectors = self.vectors
        if vectors is not None and vectors_of is not None and vectors_of[0] != "encoder":
            keys = 1 if vectors_of[0] == "decoder" else 0
            vectors = HeadVectors(vectors.query[1:], vectors.key[keys:], vectors.value[keys:])
        return AttentionMaps(
            cross=self.cross[..., 1:, :],
            encoder=self.encoder,
            decoder=decoder,
            token_scores=self.token_scores[1:],
            candidate_ids=self.candidate_ids[1:],
            candidate_scores=self.candidate_scores[1:],
            value_products=self.value_products,
            vectors=vectors,
            forget_gates=None if self.forget_gates is None else self.forget_gates[:, 1:],
            outside=tuple(place - 1 for place in self.outside if place),
        )


def check_pair(config: ModelConfig, source: Sequence[int], target: Sequence[int]) -> None:
    """Raises ValueError for too long or empty inputs and ids outside the vocabulary. `target` excludes start and
    end."""
    _check("source", source, config.source_vocab_size or config.vocab_size, config.max_length, least=1)
    _check("target", target, config.vocab_size, config.max_length - 1, least=0)


def check_head(config: ModelConfig, head: Head) -> None:
    """Raises ValueError for a head that does not exist."""
    kind, layer, number = head
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers, "cross": config.decoder_layers}
    heads = config.decoder_heads if kind == "decoder" else config.heads
    if not (0 <= layer < layers.get(kind, 0) and 0 <= number < heads):
        raise ValueError(f"There is no {kind} head {number} in layer {layer}.")


def _check(name: str, ids: Sequence[int], vocabulary: int, longest: int, *, least: int) -> None:
    if not least <= len(ids) <= longest:
        raise ValueError(f"The {name} has {len(ids)} tokens; the model reads {least} to {longest}.")
    if any(not 0 <= token < vocabulary for token in ids):
        raise ValueError(f"The {name} holds an id outside the vocabulary of {vocabulary}.")
