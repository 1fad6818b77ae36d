"""Names of the linear layers and LayerNorms of a CTranslate2 model, and of ours that each of them holds."""

from __future__ import annotations

from collections.abc import Iterator

SIDES = ("encoder", "decoder")
_FEED_FORWARD = {
    "ffn/layer_norm": ["feed_forward_residual.norm"],
    "ffn/linear_0": ["feed_forward.inner"],
    "ffn/linear_1": ["feed_forward.outer"],
}
_SELF = {
    "self_attention/linear_0": ["self_attention.query", "self_attention.key", "self_attention.value"],
    "self_attention/linear_1": ["self_attention.output"],
}
_LAYERS: dict[str, dict[str, list[str]]] = {
    "encoder": {"self_attention/layer_norm": ["attention_residual.norm"], **_SELF, **_FEED_FORWARD},
    "decoder": {
        "self_attention/layer_norm": ["self_residual.norm"],
        **_SELF,
        "attention/layer_norm": ["cross_residual.norm"],
        "attention/linear_0": ["cross_attention.query"],
        "attention/linear_1": ["cross_attention.key", "cross_attention.value"],
        "attention/linear_2": ["cross_attention.output"],
        **_FEED_FORWARD,
    },
}


def parts(
    encoder_layers: int, decoder_layers: int, pre_norm: bool, embedding_norm: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yields the name of each part and our names. A linear part holds the rows of one or more of our linear layers."""
    for side, depth in zip(SIDES, (encoder_layers, decoder_layers), strict=True):
        for number in range(depth):
            for theirs, ours in _LAYERS[side].items():
                yield f"{side}/layer_{number}/{theirs}", [f"{side}.{number}.{name}" for name in ours]
        if pre_norm:
            yield f"{side}/layer_norm", [f"{side}_norm"]
        if embedding_norm:
            yield f"{side}/layernorm_embedding", [f"{side}_embedding_norm"]


def is_norm(theirs: str) -> bool:
    """Returns whether the part is a LayerNorm, with the arrays gamma and beta."""
    return "norm" in theirs.rpartition("/")[2]
