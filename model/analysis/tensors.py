"""The named tensors of one position in one layer, which a forced pass returns: every number between two layers of the paper.

This list is a contract between the page, the backends and the engine (csrc/layers/attention_capture.h), which may fuse what
lies between two of them. Tensors of attention hold all heads concatenated (section 3.2.2); queries, keys and values of one head
are `HeadVectors`, and its weights are in `AttentionMaps`. NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig

Float32 = NDArray[np.float32]
Side = Literal["encoder", "decoder"]

TENSORS = {
    "embedding": "the embedding, times sqrt(d_model) where the model scales it; of the first layer only",
    "stream": "what the layer reads: of the first one the embedding plus the position",
    "input": "what self-attention reads: the stream, in a pre-norm model normalised",
    "self.context": "the weighted sums of values of all heads, concatenated; none with a recurrence",
    "self.output": "the context times W_O, or what the recurrence returns",
    "self.norm": "what the next sublayer reads, after the residual connection and LayerNorm",
    "cross.context": "of the decoder: as self.context, over the source",
    "cross.output": "of the decoder: as self.output",
    "cross.norm": "of the decoder: as self.norm",
    "feed_forward.inner": "x W_1 + b_1, before the activation",
    "feed_forward.output": "the output of the feed-forward network",
    "feed_forward.norm": "what the next layer, or the projection to the vocabulary, reads",
}
"""Names in the order of computation, and what each is. Vectors of d_model float32 numbers, `feed_forward.inner` of d_ff."""
SUBLAYERS = ("self", "cross", "feed_forward")


class Followed(NamedTuple):
    """A position in a layer, both from 0: a source token of the encoder, or an input of the decoder."""

    side: Side
    layer: int
    position: int


def names(config: ModelConfig, followed: Followed) -> list[str]:
    """Returns the tensors that a model has at a position, in the order of computation."""
    absent = {"embedding"} if followed.layer else set()
    if followed.side == "encoder":
        absent |= {name for name in TENSORS if name.startswith("cross.")}
    elif config.recurrence != "none":
        absent.add("self.context")
    return [name for name in TENSORS if name not in absent]


def width(config: ModelConfig, name: str) -> int:
    """Returns the number of features of a tensor."""
    return config.d_ff if name == "feed_forward.inner" else config.d_model


def residuals(tensors: Mapping[str, Float32]) -> dict[str, Float32]:
    """Returns the residual stream after each sublayer, bit for bit: in a post-norm model before its LayerNorm. Keys are
    `self.residual` and so on."""
    found, stream = {}, tensors["stream"]
    pre = not np.array_equal(tensors["input"], stream)
    for sublayer in SUBLAYERS:
        if f"{sublayer}.output" in tensors:
            stream = found[f"{sublayer}.residual"] = stream + tensors[f"{sublayer}.output"]
            if not pre:
                stream = tensors[f"{sublayer}.norm"]
    return found


def check_followed(
    config: ModelConfig, followed: Followed | None, source: Sequence[int], target: Sequence[int]
) -> None:
    """Raises ValueError for a layer or position that does not exist. `target` excludes start and end."""
    if followed is None:
        return
    side, layer, position = followed
    layers, positions = (
        (config.encoder_layers, len(source)) if side == "encoder" else (config.decoder_layers, len(target) + 1)
    )
    if side not in ("encoder", "decoder") or not 0 <= layer < layers or not 0 <= position < positions:
        raise ValueError(f"There is no position {position} in layer {layer} of the {side}.")
