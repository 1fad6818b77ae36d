"""The Transformer ("Attention Is All You Need", section 3): embeddings, encoder, decoder, output
projection.

Shapes: B batch, S source length, T target length, L layers, H heads, D head width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.config import ModelConfig
from model.kv_cache import KVCache
from model.layers import DecoderLayer, EncoderLayer
from model.positions import sinusoidal_table


@dataclass(frozen=True, slots=True)
class HeadGates:
    """Factors on the output of each head, (B or 1, L, H) each: 1 keeps a head, 0 masks it."""

    encoder: Tensor
    decoder: Tensor
    cross: Tensor


class Transformer(nn.Module):
    """Encoder and decoder over token ids (section 3.1). Embeddings and output projection share a
    matrix if tied (section 3.4)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        if not config.tied_embeddings:
            self.source_embedding = nn.Embedding(
                config.source_vocab_size or config.vocab_size, config.d_model
            )
            self.projection = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.output_bias:
            self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        if config.positions.startswith("learned"):
            self.positions = nn.Embedding(config.max_length, config.d_model)
            if config.positions == "learned_per_side":
                self.decoder_positions = nn.Embedding(config.max_length, config.d_model)
        else:
            # Of numbers also where a model is built without memory, because the table is not part
            # of the state_dict.
            half = config.positions == "sinusoidal_half"
            table = sinusoidal_table(config.max_length, config.d_model, half=half)  # section 3.5
            self.register_buffer("position_table", torch.from_numpy(table), persistent=False)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        if config.embedding_norm:
            self.encoder_embedding_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
            self.decoder_embedding_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        if config.norm == "pre":
            self.encoder_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
            self.decoder_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises matrices Glorot-uniform and embeddings from N(0, 1 / d_model): scaled
        embeddings have unit variance."""
        for name, parameter in self.named_parameters():
            if name.endswith(("embedding.weight", "positions.weight")):
                nn.init.normal_(parameter, std=self.config.d_model**-0.5)
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    # -- encode once; decode all positions, or one position per step
    # ---------------------------------------------------

    def encode(self, source: Tensor, source_mask: Tensor, gates: HeadGates | None = None) -> Tensor:
        """Encoder: source ids (B, S), source_mask (B, S) True at tokens -> memory (B, S,
        d_model)."""
        positions = torch.arange(source.shape[1], device=source.device)  # (S,)
        embedding = self.embedding if self.config.tied_embeddings else self.source_embedding
        x = self._add_positions(self._embed(embedding, source), positions)  # (B, S, d_model)
        x = self.dropout(self.encoder_embedding_norm(x) if self.config.embedding_norm else x)
        bias = _mask_bias(source_mask[:, None, None, :], x.dtype)  # (B, 1, 1, S)
        for index, layer in enumerate(self.encoder):
            x = layer(x, bias, None if gates is None else gates.encoder[:, index])
        memory: Tensor = self.encoder_norm(x) if self.config.norm == "pre" else x
        return memory

    def decode(
        self, memory: Tensor, source_mask: Tensor, target: Tensor, gates: HeadGates | None = None
    ) -> Tensor:
        """Decoder with teacher forcing: input target (B, T), the first column the start token ->
        features (B, T, d_model)."""
        positions = torch.arange(target.shape[1], device=target.device)  # (T,)
        x = self.dropout(self.embed_step(target, positions))  # (B, T, d_model)
        self_bias = _mask_bias(positions[:, None] >= positions[None, :], x.dtype)  # (T, T), causal
        cross_bias = _mask_bias(source_mask[:, None, None, :], x.dtype)  # (B, 1, 1, S)
        for index, layer in enumerate(self.decoder):
            x = layer(x, memory, self_bias, cross_bias, _decoder_gates(gates, index))
        features: Tensor = self.decoder_norm(x) if self.config.norm == "pre" else x
        return features

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, gates: HeadGates | None = None
    ) -> Tensor:
        """source (B, S), source_mask (B, S), decoder input target (B, T) -> logits (B, T, V)."""
        memory = self.encode(source, source_mask, gates)
        return self.logits(self.decode(memory, source_mask, target, gates))

    def write_cross(
        self, memory: Tensor, source_lengths: list[int], cache: KVCache, slots: list[int]
    ) -> None:
        """Computes the cross-attention keys and values of every decoder layer from memory (B, S,
        d_model), once per source."""
        for layer, block in enumerate(self._decoder_layers()):
            cache.write_cross(layer, slots, *block.cross_attention.keys_values(memory))
        cache.begin(slots, source_lengths)

    def decode_step(
        self, tokens: Tensor, cache: KVCache, rows: list[int], gates: HeadGates | None = None
    ) -> Tensor:
        """Advances each slot in `rows` by its token: tokens (B,) -> logits (B, V). Reads earlier
        positions from the cache."""
        positions, *masks = cache.open_step(rows)  # (B,), (B, T), (B, S)
        x = self.embed_step(tokens, positions).unsqueeze(1)  # (B, 1, d_model)
        # Over cached positions (B, 1, 1, T), and over source tokens (B, 1, 1, S).
        self_bias, cross_bias = (_mask_bias(mask[:, None, None, :], x.dtype) for mask in masks)
        for layer, block in enumerate(self._decoder_layers()):
            x = block.step(x, cache, layer, self_bias, cross_bias, _decoder_gates(gates, layer))
        cache.close_step()
        if self.config.norm == "pre":
            x = self.decoder_norm(x)
        return self.logits(x.squeeze(1))  # (B, d_model) -> (B, V)

    def embed_step(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Embeds one position per row, or all T of each: tokens (B,) or (B, T), positions (B,) or
        (T,) -> (..., d_model)."""
        x = self._embed(self.embedding, tokens)
        if self.config.zero_start_embedding:
            x = x.masked_fill((positions == 0).unsqueeze(-1), 0.0)
        x = self._add_positions(x, positions, decoder=True)
        return self.decoder_embedding_norm(x) if self.config.embedding_norm else x

    def logits(self, features: Tensor) -> Tensor:
        """Linear projection before the softmax (section 3.4): features (..., d_model) -> (...,
        V)."""
        return functional.linear(features, *self.output_projection)

    @property
    def output_projection(self) -> tuple[Tensor, Tensor | None]:
        """Weight (V, d_model) and bias (V,) of the projection before the softmax."""
        weight = self.embedding.weight if self.config.tied_embeddings else self.projection.weight
        return weight, self.output_bias if self.config.output_bias else None

    def _decoder_layers(self) -> Iterable[DecoderLayer]:
        return cast("Iterable[DecoderLayer]", self.decoder)

    # -- parts
    # ----------------------------------------------------------------------------------------------

    def _embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Embeddings times sqrt(d_model) (section 3.4): ids (..., T) -> (..., T, d_model)."""
        x: Tensor = embedding(ids)
        if self.config.scale_embeddings:
            x = x * math.sqrt(self.config.d_model)
        return x

    def _add_positions(self, x: Tensor, positions: Tensor, decoder: bool = False) -> Tensor:
        """Adds sinusoidal or learned positional encodings (section 3.5): x (..., T, d_model),
        positions (T,)."""
        if self.config.positions.startswith("learned"):
            own = decoder and self.config.positions == "learned_per_side"
            total: Tensor = x + (self.decoder_positions if own else self.positions)(positions)
            return total
        return x + self.get_buffer("position_table")[positions].to(x.dtype)


def _mask_bias(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Bias added to the scores: 0 where `allowed`, else -inf (section 3.2.3)."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(
        ~allowed, -math.inf
    )


def _decoder_gates(gates: HeadGates | None, layer: int) -> tuple[Tensor | None, Tensor | None]:
    """Gates (B or 1, H) of self- and cross-attention of one layer."""
    return (None, None) if gates is None else (gates.decoder[:, layer], gates.cross[:, layer])
