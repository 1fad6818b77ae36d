"""The Transformer of "Attention Is All You Need": embeddings, N encoder layers, N decoder layers, tied output projection."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.attention import MultiHeadAttention
from model.config import ModelConfig
from model.kv_cache import KVCache
from model.positions import alibi_bias, rotate, sinusoidal_table

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "swish": functional.silu, "gelu": functional.gelu}


@dataclass(frozen=True, slots=True)
class HeadGates:
    """Factors on each head's output, (B or 1, L, H) each: 1 leaves a head as it is, 0 switches it off."""

    encoder: Tensor
    decoder: Tensor
    cross: Tensor


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Where every head looked: encoder (L, B, H, S, S), decoder (L, B, H, T, T), cross (L, B, H, T, S)."""

    encoder: Tensor
    decoder: Tensor
    cross: Tensor


class FeedForward(nn.Module):
    """Position-wise feed-forward network, section 3.3: act(x W1 + b1) W2 + b2."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.activation = _ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.outer(self.activation(self.inner(x)))
        return output


class Sublayer(nn.Module):
    """The residual connection around a sublayer with its LayerNorm: after the sum (post) or before the sublayer (pre)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def enter(self, x: Tensor) -> Tensor:
        """What the sublayer reads."""
        output: Tensor = self.norm(x) if self.pre else x
        return output

    def leave(self, x: Tensor, output: Tensor) -> Tensor:
        """x with the sublayer's output added."""
        total: Tensor = x + self.dropout(output)
        return total if self.pre else self.norm(total)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward (section 3.1, encoder)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.heads)
        self.feed_forward = FeedForward(config)
        self.attention_residual = Sublayer(config)
        self.feed_forward_residual = Sublayer(config)
        self.rotary = config.positions == "rotary"

    def forward(
        self, x: Tensor, bias: Tensor | None, gate: Tensor | None = None, *, weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """x (B, S, d_model), bias broadcastable to (B, H, S, S) -> (B, S, d_model) and, if asked, weights (B, H, S, S)."""
        query, key, value = self_heads(self.self_attention, self.attention_residual.enter(x), self.rotary)
        attended, looked = _attend(self.self_attention, query, key, value, bias, gate, weights)
        x = self.attention_residual.leave(x, attended)
        return self.feed_forward_residual.leave(x, self.feed_forward(self.feed_forward_residual.enter(x))), looked


class DecoderLayer(nn.Module):
    """Masked self-attention, encoder-decoder attention, feed-forward (section 3.1, decoder)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.heads)
        self.cross_attention = MultiHeadAttention(config.d_model, config.heads)
        self.feed_forward = FeedForward(config)
        self.self_residual = Sublayer(config)
        self.cross_residual = Sublayer(config)
        self.feed_forward_residual = Sublayer(config)
        self.rotary = config.positions == "rotary"

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        self_bias: Tensor | None,
        cross_bias: Tensor | None,
        gates: tuple[Tensor | None, Tensor | None] = (None, None),
        *,
        weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """All T positions at once: x (B, T, d_model), memory (B, S, d_model) -> (B, T, d_model), weights if asked."""
        query, key, value = self_heads(self.self_attention, self.self_residual.enter(x), self.rotary)
        attended, looked_self = _attend(self.self_attention, query, key, value, self_bias, gates[0], weights)
        x = self.self_residual.leave(x, attended)
        query = self.cross_attention.queries(self.cross_residual.enter(x))
        key, value = self.cross_attention.keys_values(memory)
        attended, looked_cross = _attend(self.cross_attention, query, key, value, cross_bias, gates[1], weights)
        x = self.cross_residual.leave(x, attended)
        x = self.feed_forward_residual.leave(x, self.feed_forward(self.feed_forward_residual.enter(x)))
        return x, looked_self, looked_cross

    def step(
        self,
        x: Tensor,
        cache: KVCache,
        layer: int,
        self_bias: Tensor | None,
        cross_bias: Tensor | None,
        gates: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Tensor:
        """One position per row against cached keys and values: x (B, 1, d_model) -> (B, 1, d_model)."""
        entered = self.self_residual.enter(x)
        query = self.self_attention.queries(entered)  # (B, H, 1, D)
        key, value = self.self_attention.keys_values(entered)
        if self.rotary:
            positions = cache.step_positions().unsqueeze(1)
            query, key = rotate(query, positions), rotate(key, positions)
        keys, values = cache.write_self(layer, key.squeeze(2), value.squeeze(2))  # (B, H, T, D)
        x = self.self_residual.leave(x, self.self_attention.attend(query, keys, values, self_bias, gates[0]))
        query = self.cross_attention.queries(self.cross_residual.enter(x))
        keys, values = cache.read_cross(layer)  # (B, H, S, D)
        x = self.cross_residual.leave(x, self.cross_attention.attend(query, keys, values, cross_bias, gates[1]))
        return self.feed_forward_residual.leave(x, self.feed_forward(self.feed_forward_residual.enter(x)))


class Transformer(nn.Module):
    """Encoder and decoder over token ids. B batch, S source length, T target length, H heads, V vocabulary."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        if not config.tied_embeddings:
            self.source_embedding = nn.Embedding(config.source_vocab_size or config.vocab_size, config.d_model)
            self.projection = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.output_bias:
            self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        if config.positions == "learned":
            self.positions = nn.Embedding(config.max_length, config.d_model)
        elif config.positions.startswith("sinusoidal"):
            self.build_position_table()
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        if config.norm == "pre":
            self.encoder_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
            self.decoder_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)
        self.reset_parameters()

    def build_position_table(self, device: torch.device | None = None) -> None:
        """Compute the sinusoidal encodings (max_length, d_model); they are a function of the shape and never stored."""
        half = self.config.positions == "sinusoidal_half"
        table = sinusoidal_table(self.config.max_length, self.config.d_model, half=half, device=device)
        self.register_buffer("position_table", table, persistent=False)

    def reset_parameters(self) -> None:
        """Glorot-uniform matrices, embeddings from N(0, 1 / d_model) so that scaled embeddings have unit variance."""
        for name, parameter in self.named_parameters():
            if name.endswith("embedding.weight") or name == "positions.weight":
                nn.init.normal_(parameter, std=self.config.d_model**-0.5)
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    # -- the three journeys: encode once, decode all positions, decode one more position -------------------------------

    def encode(self, source: Tensor, source_mask: Tensor, gates: HeadGates | None = None) -> Tensor:
        """source (B, S) ids, source_mask (B, S) True at tokens -> memory (B, S, d_model)."""
        return self._encode(source, source_mask, gates, weights=False)[0]

    def decode(
        self, memory: Tensor, source_mask: Tensor, target: Tensor, gates: HeadGates | None = None
    ) -> Tensor:
        """Teacher forcing: decoder input target (B, T), first column the start -> features (B, T, d_model)."""
        return self._decode(memory, source_mask, target, gates, weights=False)[0]

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor, gates: HeadGates | None = None) -> Tensor:
        """source (B, S), source_mask (B, S), decoder input target (B, T) -> logits (B, T, V)."""
        memory = self.encode(source, source_mask, gates)
        return self.logits(self.decode(memory, source_mask, target, gates))

    def forward_with_weights(
        self, source: Tensor, source_mask: Tensor, target: Tensor, gates: HeadGates | None = None
    ) -> tuple[Tensor, AttentionWeights]:
        """`forward` with explicit softmax: logits (B, T, V) and the weights of every head."""
        memory, encoder = self._encode(source, source_mask, gates, weights=True)
        features, decoder, cross = self._decode(memory, source_mask, target, gates, weights=True)
        return self.logits(features), AttentionWeights(torch.stack(encoder), torch.stack(decoder), torch.stack(cross))

    def write_cross(self, memory: Tensor, source_lengths: list[int], cache: KVCache, slots: list[int]) -> None:
        """Project memory (B, S, d_model) to every decoder layer's cross-attention keys and values, once per source."""
        for layer, block in enumerate(self._decoder_layers()):
            cache.write_cross(layer, slots, *block.cross_attention.keys_values(memory))
        cache.begin(slots, source_lengths)

    def decode_step(self, tokens: Tensor, cache: KVCache, rows: list[int], gates: HeadGates | None = None) -> Tensor:
        """Advance each slot in `rows` by its token: tokens (B,) -> logits (B, V). Computes nothing twice."""
        cache.open_step(rows)
        positions = cache.step_positions()  # (B,)
        x = self.embed_step(tokens, positions).unsqueeze(1)  # (B, 1, d_model)
        self_bias, cross_bias = self._step_biases(cache, x.dtype)
        for layer, block in enumerate(self._decoder_layers()):
            x = block.step(x, cache, layer, self_bias, cross_bias, _decoder_gates(gates, layer))
        cache.close_step()
        if self.config.norm == "pre":
            x = self.decoder_norm(x)
        return self.logits(x.squeeze(1))

    def embed_step(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """What the first decoder layer reads for one position per row: tokens (B,), positions (B,) -> (B, d_model)."""
        x = self._embed(self.embedding, tokens, positions)
        if self.config.zero_start_embedding:
            start = self._place(torch.zeros_like(x), positions)
            x = torch.where((positions == 0).unsqueeze(1), start, x)
        return x

    def logits(self, features: Tensor) -> Tensor:
        """Pre-softmax projection: features (..., d_model) -> (..., V); shares the embedding's weights when tied."""
        weight = self.embedding.weight if self.config.tied_embeddings else self.projection.weight
        return functional.linear(features, weight, self.output_bias if self.config.output_bias else None)

    def _decoder_layers(self) -> Iterable[DecoderLayer]:
        return cast("Iterable[DecoderLayer]", self.decoder)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _encode(
        self, source: Tensor, source_mask: Tensor, gates: HeadGates | None, *, weights: bool
    ) -> tuple[Tensor, list[Tensor]]:
        positions = torch.arange(source.shape[1], device=source.device)
        embedding = self.embedding if self.config.tied_embeddings else self.source_embedding
        x = self.dropout(self._embed(embedding, source, positions))
        bias = self._bias(source_mask[:, None, None, :], positions, positions, x.dtype, windowed=True, distances=True)
        looked: list[Tensor] = []
        for index, layer in enumerate(self.encoder):
            x, seen = layer(x, bias, None if gates is None else gates.encoder[:, index], weights=weights)
            if seen is not None:
                looked.append(seen)
        return (self.encoder_norm(x) if self.config.norm == "pre" else x), looked

    def _decode(
        self, memory: Tensor, source_mask: Tensor, target: Tensor, gates: HeadGates | None, *, weights: bool
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        positions = torch.arange(target.shape[1], device=target.device)
        x = self._embed(self.embedding, target, positions)
        if self.config.zero_start_embedding:
            x = torch.cat([self._place(torch.zeros_like(x[:, :1]), positions[:1]), x[:, 1:]], dim=1)
        x = self.dropout(x)
        causal = positions[:, None] >= positions[None, :]  # (T, T)
        self_bias = self._bias(causal, positions, positions, x.dtype, windowed=True, distances=True)
        cross_bias = self._bias(source_mask[:, None, None, :], positions, positions, x.dtype)
        seen_self: list[Tensor] = []
        seen_cross: list[Tensor] = []
        for index, layer in enumerate(self.decoder):
            pair = _decoder_gates(gates, index)
            x, looked_self, looked_cross = layer(x, memory, self_bias, cross_bias, pair, weights=weights)
            if looked_self is not None and looked_cross is not None:
                seen_self.append(looked_self)
                seen_cross.append(looked_cross)
        return (self.decoder_norm(x) if self.config.norm == "pre" else x), seen_self, seen_cross

    def _embed(self, embedding: nn.Embedding, ids: Tensor, positions: Tensor) -> Tensor:
        x: Tensor = embedding(ids)
        if self.config.scale_embeddings:
            x = x * math.sqrt(self.config.d_model)
        return self._place(x, positions)

    def _place(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the positional encoding where the model has additive ones."""
        if self.config.positions == "learned":
            placed: Tensor = x + self.positions(positions)
            return placed
        if self.config.positions.startswith("sinusoidal"):
            table = self.get_buffer("position_table")
            return x + table[positions].to(x.dtype)
        return x

    def _bias(
        self, allowed: Tensor, queries: Tensor, keys: Tensor, dtype: torch.dtype, *, windowed: bool = False,
        distances: bool = False,
    ) -> Tensor:
        """Additive bias from who may look where: 0 or -inf, minus ALiBi's distance, restricted to the window."""
        if windowed and self.config.window is not None:
            distance = (queries.unsqueeze(-1) - keys.unsqueeze(-2)).abs()
            distance = distance if distance.dim() == 2 else distance.unsqueeze(1)
            # Padding far from any token sees itself: a row that sees nothing has no softmax.
            allowed = (allowed & (distance <= self.config.window)) | (distance == 0)
        bias = torch.zeros(allowed.shape, dtype=torch.float32, device=allowed.device)
        bias = bias.masked_fill(~allowed, -math.inf)
        if distances and self.config.positions == "alibi":
            bias = bias + alibi_bias(self.config.heads, queries, keys)
        return bias.to(dtype)

    def _step_biases(self, cache: KVCache, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Biases of one step: self (B, 1 or H, 1, T) over live positions, cross (B, 1, 1, S) over source tokens."""
        allowed_self, allowed_cross = cache.step_masks()  # (B, T), (B, S)
        queries = cache.step_positions().unsqueeze(1)  # (B, 1)
        keys = torch.arange(allowed_self.shape[1], device=queries.device).expand(queries.shape[0], -1)
        mask = allowed_self[:, None, None, :]
        self_bias = self._bias(mask, queries, keys, dtype, windowed=True, distances=True)
        return self_bias, self._bias(allowed_cross[:, None, None, :], queries, keys, dtype)


def self_heads(attention: MultiHeadAttention, x: Tensor, rotary: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (B, H, T, D) of x (B, T, d_model) over itself, rotated by position if asked."""
    query = attention.queries(x)
    key, value = attention.keys_values(x)
    if rotary:
        positions = torch.arange(x.shape[1], device=x.device)
        query, key = rotate(query, positions), rotate(key, positions)
    return query, key, value


def _attend(
    attention: MultiHeadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    gate: Tensor | None,
    weights: bool,
) -> tuple[Tensor, Tensor | None]:
    if weights:
        return attention.attend_weights(query, key, value, bias, gate)
    return attention.attend(query, key, value, bias, gate), None


def _decoder_gates(gates: HeadGates | None, layer: int) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if gates is None else (gates.decoder[:, layer], gates.cross[:, layer])
