"""Names of the same tensors in our models, Hugging Face's, Marian's and CTranslate2's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model.config import ModelConfig

_PROJECTIONS = (
    ("query", "q_proj", "q"),
    ("key", "k_proj", "k"),
    ("value", "v_proj", "v"),
    ("output", "out_proj", "o"),
)
SIDES = ("encoder", "decoder")
_CTRANSLATE2_FEED_FORWARD = {
    "ffn/layer_norm": ["feed_forward_residual.norm"],
    "ffn/linear_0": ["feed_forward.inner"],
    "ffn/linear_1": ["feed_forward.outer"],
}
_CTRANSLATE2_SELF = {
    "self_attention/linear_0": [
        "self_attention.query",
        "self_attention.key",
        "self_attention.value",
    ],
    "self_attention/linear_1": ["self_attention.output"],
}
_CTRANSLATE2_LAYERS: dict[str, dict[str, list[str]]] = {
    "encoder": {
        "self_attention/layer_norm": ["attention_residual.norm"],
        **_CTRANSLATE2_SELF,
        **_CTRANSLATE2_FEED_FORWARD,
    },
    "decoder": {
        "self_attention/layer_norm": ["self_residual.norm"],
        **_CTRANSLATE2_SELF,
        "attention/layer_norm": ["cross_residual.norm"],
        "attention/linear_0": ["cross_attention.query"],
        "attention/linear_1": ["cross_attention.key", "cross_attention.value"],
        "attention/linear_2": ["cross_attention.output"],
        **_CTRANSLATE2_FEED_FORWARD,
    },
}


@dataclass(frozen=True, slots=True)
class Part:
    """A linear layer or a LayerNorm. `.weight` and `.bias` are appended to `ours` and to
    `huggingface`, which is empty for layers that Hugging Face does not have. `marian_bias` is None
    without a bias."""

    ours: str
    huggingface: str
    marian_weight: str
    marian_bias: str | None
    linear: bool = True
    """Marian stores the weight of a linear layer transposed."""


def parts(config: ModelConfig) -> Iterator[Part]:
    """Yields all linear layers and LayerNorms, without embeddings, positions and output bias.
    Hugging Face's pre-norm models are M2M100."""
    for i in range(config.encoder_layers):
        yield from _layer(config, f"encoder.{i}", f"model.encoder.layers.{i}", f"encoder_l{i + 1}")
    for i in range(config.decoder_layers):
        yield from _layer(config, f"decoder.{i}", f"model.decoder.layers.{i}", f"decoder_l{i + 1}")
    for side in ("encoder", "decoder"):
        for ours, theirs, marian, present in (
            ("embedding_norm", "layernorm_embedding", "emb_ln", config.embedding_norm),
            ("norm", "layer_norm", "top_ln", config.norm == "pre"),
        ):
            if present:
                marian_names = f"{side}_{marian}_scale", f"{side}_{marian}_bias"
                yield Part(f"{side}_{ours}", f"model.{side}.{theirs}", *marian_names, linear=False)


def shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of all parameters of our Transformer."""
    width, rows = config.d_model, config.vocab_size
    feed_forward = {"inner": (config.d_ff, width), "outer": (width, config.d_ff)}
    sizes: dict[str, tuple[int, ...]] = {"embedding.weight": (rows, width)}
    if not config.tied_embeddings:
        sizes |= {
            "source_embedding.weight": (config.source_vocab_size or rows, width),
            "projection.weight": (rows, width),
        }
    if config.output_bias:
        sizes["output_bias"] = (rows,)
    if config.positions.startswith("learned"):
        sizes["positions.weight"] = (config.max_length, width)
    if config.positions == "learned_per_side":
        sizes["decoder_positions.weight"] = (config.max_length, width)
    for part in parts(config):
        shape = (
            feed_forward.get(part.ours.rpartition(".")[2], (width, width))
            if part.linear
            else (width,)
        )
        sizes[f"{part.ours}.weight"] = shape
        if part.marian_bias is not None:
            sizes[f"{part.ours}.bias"] = shape[:1]
    return sizes


def _layer(config: ModelConfig, ours: str, theirs: str, marian: str) -> Iterator[Part]:
    pre = "_pre" if config.norm == "pre" else ""

    def norm(name: str, huggingface: str, marian_name: str) -> Part:
        scale, bias = f"{marian}_{marian_name}_scale{pre}", f"{marian}_{marian_name}_bias{pre}"
        return Part(
            f"{ours}.{name}.norm",
            huggingface and f"{theirs}.{huggingface}",
            scale,
            bias,
            linear=False,
        )

    def attention(name: str, huggingface: str, marian_name: str) -> Iterator[Part]:
        for projection, proj, letter in _PROJECTIONS:
            weight, bias = f"{marian}_{marian_name}_W{letter}", f"{marian}_{marian_name}_b{letter}"
            yield Part(
                f"{ours}.{name}.{projection}", f"{theirs}.{huggingface}.{proj}", weight, bias
            )

    decoder = ours.startswith("decoder")
    if decoder and config.recurrence != "none":
        yield Part(f"{ours}.recurrence.input", "", f"{marian}_rnn_W", None)
        yield Part(f"{ours}.recurrence.forget", "", f"{marian}_rnn_Wf", f"{marian}_rnn_bf")
        yield norm("self_residual", "", "rnn_ln" if pre else "rnn_ffn_ln")
    else:
        yield from attention("self_attention", "self_attn", "self")
        yield norm(
            "self_residual" if decoder else "attention_residual",
            "self_attn_layer_norm",
            "self_Wo_ln",
        )
    if decoder:
        yield from attention("cross_attention", "encoder_attn", "context")
        yield norm("cross_residual", "encoder_attn_layer_norm", "context_Wo_ln")
    feed_forward = f"{ours}.feed_forward"
    yield Part(f"{feed_forward}.inner", f"{theirs}.fc1", f"{marian}_ffn_W1", f"{marian}_ffn_b1")
    yield Part(f"{feed_forward}.outer", f"{theirs}.fc2", f"{marian}_ffn_W2", f"{marian}_ffn_b2")
    yield norm("feed_forward_residual", "final_layer_norm", "ffn_ffn_ln")


def ctranslate2_parts(
    encoder_layers: int, decoder_layers: int, pre_norm: bool, embedding_norm: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yields the name of each part of a CTranslate2 model and our names. A linear part stacks the
    rows of our linear layers."""
    for side, depth in zip(SIDES, (encoder_layers, decoder_layers), strict=True):
        for number in range(depth):
            for theirs, ours in _CTRANSLATE2_LAYERS[side].items():
                yield (
                    f"{side}/layer_{number}/{theirs}",
                    [f"{side}.{number}.{name}" for name in ours],
                )
        if pre_norm:
            yield f"{side}/layer_norm", [f"{side}_norm"]
        if embedding_norm:
            yield f"{side}/layernorm_embedding", [f"{side}_embedding_norm"]


def is_norm(theirs: str) -> bool:
    """Returns whether a part of a CTranslate2 model is a LayerNorm (arrays gamma and beta)."""
    return "norm" in theirs.rpartition("/")[2]
