"""Names of the same tensors in our models, in Hugging Face's and in Marian's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Part:
    """A linear layer or a LayerNorm. `.weight` and `.bias` are appended to `ours` and `huggingface`, which is empty for
    layers that Hugging Face does not have. A linear layer without a bias has `marian_bias` None."""

    ours: str
    huggingface: str
    marian_weight: str
    marian_bias: str | None
    linear: bool


_PROJECTIONS = (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o"))


def parts(config: ModelConfig) -> Iterator[Part]:
    """Yields all linear layers and LayerNorms of encoder and decoder, without embeddings, positions and output bias.

    Pre-norm models of Hugging Face are those of its M2M100.
    """
    pre = "_pre" if config.norm == "pre" else ""
    for i in range(config.encoder_layers):
        ours, theirs, marian = f"encoder.{i}", f"model.encoder.layers.{i}", f"encoder_l{i + 1}"
        yield from _attention(f"{ours}.self_attention", f"{theirs}.self_attn", f"{marian}_self")
        yield _norm(f"{ours}.attention_residual.norm", f"{theirs}.self_attn_layer_norm", f"{marian}_self_Wo_ln", pre)
        yield from _feed_forward(ours, theirs, marian, pre)
    for i in range(config.decoder_layers):
        ours, theirs, marian = f"decoder.{i}", f"model.decoder.layers.{i}", f"decoder_l{i + 1}"
        if config.recurrence == "none":
            yield from _attention(f"{ours}.self_attention", f"{theirs}.self_attn", f"{marian}_self")
            yield _norm(f"{ours}.self_residual.norm", f"{theirs}.self_attn_layer_norm", f"{marian}_self_Wo_ln", pre)
        else:
            yield Part(f"{ours}.recurrence.input", "", f"{marian}_rnn_W", None, True)
            yield Part(f"{ours}.recurrence.forget", "", f"{marian}_rnn_Wf", f"{marian}_rnn_bf", True)
            yield _norm(f"{ours}.self_residual.norm", "", f"{marian}_rnn_ln" if pre else f"{marian}_rnn_ffn_ln", pre)
        yield from _attention(f"{ours}.cross_attention", f"{theirs}.encoder_attn", f"{marian}_context")
        yield _norm(f"{ours}.cross_residual.norm", f"{theirs}.encoder_attn_layer_norm", f"{marian}_context_Wo_ln", pre)
        yield from _feed_forward(ours, theirs, marian, pre)
    if config.norm == "pre":
        yield _norm("encoder_norm", "model.encoder.layer_norm", "encoder_top_ln", "")
        yield _norm("decoder_norm", "model.decoder.layer_norm", "decoder_top_ln", "")


def _attention(ours: str, theirs: str, marian: str) -> Iterator[Part]:
    for name, letter in _PROJECTIONS:
        projection = "out_proj" if letter == "o" else f"{letter}_proj"
        yield Part(f"{ours}.{name}", f"{theirs}.{projection}", f"{marian}_W{letter}", f"{marian}_b{letter}", True)


def _feed_forward(ours: str, theirs: str, marian: str, pre: str) -> Iterator[Part]:
    yield Part(f"{ours}.feed_forward.inner", f"{theirs}.fc1", f"{marian}_ffn_W1", f"{marian}_ffn_b1", True)
    yield Part(f"{ours}.feed_forward.outer", f"{theirs}.fc2", f"{marian}_ffn_W2", f"{marian}_ffn_b2", True)
    yield _norm(f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm", f"{marian}_ffn_ffn_ln", pre)


def _norm(ours: str, theirs: str, marian: str, pre: str) -> Part:
    return Part(ours, theirs, f"{marian}_scale{pre}", f"{marian}_bias{pre}", False)
