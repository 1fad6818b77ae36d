"""Head health: how much of its attention every head spends on words other than its own, the first and the last
position.

A head whose queries look at one fixed position (the language tag, the end of the sentence) or at themselves carries no
context: the layer works as if it had no attention there. B batch, S source length, T target length, H heads, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.transformer import Transformer

_MOST = 0.5
"""A head reads when more than this share of its weight is on other positions."""


@dataclass(frozen=True, slots=True)
class HeadHealth:
    """One head, averaged over the queries of all sentences. `entropy` in bits; `own`, `first` and `last` are the
    weights on the query's own position, on the first and on the last one, 0 to 1. Encoders and cross-attention see the
    language tag first and the end of sentence last; own is 0 for cross-attention, last is 0 for the decoder."""

    entropy: float
    own: float
    first: float
    last: float

    @property
    def reading(self) -> bool:
        """Whether most of the weight is on other positions."""
        return 1.0 - self.own - self.first - self.last > _MOST


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """Figures of all heads, [layer][head]."""

    encoder: list[list[HeadHealth]]
    decoder: list[list[HeadHealth]]
    cross: list[list[HeadHealth]]

    def kinds(self) -> dict[str, list[list[HeadHealth]]]:
        """The three kinds of attention by name."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}


def reading_share(layers: Sequence[Sequence[HeadHealth]]) -> float:
    """Share of the heads that read, 0 to 1."""
    heads = [head for layer in layers for head in layer]
    return sum(head.reading for head in heads) / max(1, len(heads))


@torch.no_grad()
def model_health(model: Transformer, source: Tensor, target: Tensor) -> ModelHealth:
    """Health of `model` (in evaluation mode) on source (B, S) and decoder input target (B, T), both padded at the
    end."""
    pad = model.config.pad_id
    _, weights = model.forward_with_weights(source, source != pad, target)
    # The decoder may start with the padding's id: its first position is no padding.
    written = target != pad
    written[:, 0] = True
    return ModelHealth(
        _figures(weights.encoder, source != pad, source != pad, own=True, last=True),
        _figures(weights.decoder, written, written, own=True, last=False),
        _figures(weights.cross, written, source != pad, own=False, last=True),
    )


def summary(health: ModelHealth) -> dict[str, object]:
    """Figures for a line of the log: the share of heads that read, and [layer][head] entropies and other shares."""
    found: dict[str, object] = {}
    for kind, layers in health.kinds().items():
        found[kind] = {
            "reading": round(reading_share(layers), 3),
            "entropy": [[round(head.entropy, 2) for head in layer] for layer in layers],
            "elsewhere": [[round(1.0 - head.own - head.first - head.last, 2) for head in layer] for layer in layers],
        }
    return found


def _figures(weights: Tensor, queries: Tensor, keys: Tensor, *, own: bool, last: bool) -> list[list[HeadHealth]]:
    """weights (L, B, H, Q, K), queries (B, Q) and keys (B, K) True at tokens."""
    weights = weights.float()
    logs = torch.where(weights > 0, weights, 1.0).log2()
    entropy = -(weights * logs).sum(-1)  # (L, B, H, Q)
    rows = torch.arange(len(keys), device=keys.device)
    at_first = weights[..., 0]
    at_last = weights[:, rows, :, :, keys.sum(1) - 1].movedim(0, 1) if last else torch.zeros_like(entropy)
    at_own = weights.diagonal(dim1=-2, dim2=-1) if own else torch.zeros_like(entropy)
    if own:  # the weight of the first or last token on itself counts as first or last
        place = torch.arange(weights.shape[-2], device=keys.device)
        ends = (place == 0) | ((place == keys.sum(1, keepdim=True) - 1) & last)  # (B, Q)
        at_own = at_own.masked_fill(ends[None, :, None, :], 0.0)
    means = [_mean(figure, queries) for figure in (entropy, at_own, at_first, at_last)]  # (L, H) each
    layers, heads = means[0].shape
    return [
        [HeadHealth(*(float(mean[layer, head]) for mean in means)) for head in range(heads)] for layer in range(layers)
    ]


def _mean(figure: Tensor, queries: Tensor) -> Tensor:
    """Mean of figure (L, B, H, Q) over the queries (B, Q) that are tokens: (L, H)."""
    counted = figure * queries[None, :, None, :]
    return counted.sum((1, 3)) / queries.sum().clamp(min=1)
