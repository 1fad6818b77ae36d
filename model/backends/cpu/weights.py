"""Names and fused matrices of the CPU backend, from the parameters of a Transformer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from model.backends.cpu.bindings import Float32
from model.config import ModelConfig

HEAD_WIDTHS = (16, 32, 48, 64, 96, 128)
Tensors = Mapping[str, Float32]


def unsupported(config: ModelConfig) -> str | None:
    """Returns None if the CPU backend supports this shape, else one sentence with the reason."""
    if config.head_dim not in HEAD_WIDTHS:
        return (
            f"The CPU backend has heads of width {', '.join(map(str, HEAD_WIDTHS))}, not "
            f"{config.head_dim}."
        )
    if config.d_ff % 16:
        return f"The CPU backend needs d_ff to be a multiple of 16, not {config.d_ff}."
    return None


def linears(
    config: ModelConfig, tensors: Tensors
) -> Iterator[tuple[str, list[Float32], Float32 | None]]:
    """Yields all matrices: name, the weights (out, in) to stack, bias (out) or None. Queries, keys
    and values are stacked."""

    def fused(*names: str) -> tuple[list[Float32], Float32]:
        biases = [tensors[f"{name}.bias"] for name in names]
        return [tensors[f"{name}.weight"] for name in names], biases[0] if len(
            names
        ) == 1 else np.concatenate(biases)

    def attention(prefix: str, *parts: str) -> tuple[list[Float32], Float32]:
        return fused(*(f"{prefix}.{part}" for part in parts))

    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for index in range(layers):
            layer = f"{side}.{index}"
            own = "qkv" if side == "encoder" else "self_qkv"
            out = "output" if side == "encoder" else "self_output"
            if side == "decoder" and config.recurrence != "none":
                new, gate = (f"{layer}.recurrence.{part}" for part in ("input", "forget"))
                gates = tensors[f"{gate}.bias"]
                weights = [tensors[f"{new}.weight"], tensors[f"{gate}.weight"]]
                yield f"{layer}.recurrence", weights, np.concatenate([np.zeros_like(gates), gates])
            else:
                yield (
                    f"{layer}.{own}",
                    *attention(f"{layer}.self_attention", "query", "key", "value"),
                )
                yield (f"{layer}.{out}", *attention(f"{layer}.self_attention", "output"))
            if side == "decoder":
                yield (f"{layer}.cross_query", *attention(f"{layer}.cross_attention", "query"))
                yield (
                    f"{layer}.cross_key_value",
                    *attention(f"{layer}.cross_attention", "key", "value"),
                )
                yield (f"{layer}.cross_output", *attention(f"{layer}.cross_attention", "output"))
            yield (f"{layer}.inner", *fused(f"{layer}.feed_forward.inner"))
            yield (f"{layer}.outer", *fused(f"{layer}.feed_forward.outer"))
    bias = tensors["output_bias"] if config.output_bias else None
    if config.tied_embeddings:
        yield "projection", [tensors["embedding.weight"]], bias
    else:
        yield "projection", [tensors["projection.weight"]], bias
        yield "embedding", [tensors["embedding.weight"]], None
        yield "source_embedding", [tensors["source_embedding.weight"]], None


def vectors(
    config: ModelConfig, tensors: Tensors, positions: Float32
) -> Iterator[tuple[str, Float32]]:
    """Yields all vectors: gains and biases of the norms, and the tables of positions (max_length,
    d_model)."""
    norms = {
        "encoder": {"attention_norm": "attention_residual"},
        "decoder": {"self_norm": "self_residual"},
    }
    norms["decoder"]["cross_norm"] = "cross_residual"
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for index in range(layers):
            for name, module in (
                norms[side] | {"feed_forward_norm": "feed_forward_residual"}
            ).items():
                for part in ("weight", "bias"):
                    yield (
                        f"{side}.{index}.{name}.{part}",
                        tensors[f"{side}.{index}.{module}.norm.{part}"],
                    )
        for name, present in (
            ("embedding_norm", config.embedding_norm),
            ("norm", config.norm == "pre"),
        ):
            for part in ("weight", "bias") if present else ():
                yield f"{side}_{name}.{part}", tensors[f"{side}_{name}.{part}"]
    yield "positions", positions
    if config.positions == "learned_per_side":
        yield "decoder_positions", tensors["decoder_positions.weight"]
