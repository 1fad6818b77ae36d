"""The named tensors of a layer, which a forced pass returns: every number between two layers of the
paper. NumPy only.

This list is a contract between the page, docs/attention.md, the backends and the engine
(csrc/layers/attention_capture.h), which may fuse what lies between two tensors. Those in `CAPTURED`
are written by a backend, the others follow from them and from the maps (`layer_tensors`). `GET
/attention/tensors` returns them for one layer and one head of a translation.

`part` is the attention whose head is shown; all other tensors are those of its layer. Axes: r rows
(the pieces that the layer reads), k keys (the pieces that are attended to), D features of a head, d
of the model, f of the feed-forward network, c candidates. `position` keeps one row of r, counted
from 0, and all of k. Numbers are float32; scores and logits are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.analysis.types import CANDIDATES, KINDS, AttentionMaps, Followed
from model.config import ModelConfig
from model.numpy_encoder import activated

Float32 = NDArray[np.float32]
NUMBERS_LIMIT = 150_000
"""Numbers of one answer: at most 2 MB of JSON."""


class Tensor(NamedTuple):
    """The axes of a tensor, its formula in the paper, and its meaning in words."""

    axes: str
    formula: str
    meaning: str


_ATTENTION = {
    "query": Tensor("rD", "x W_Q + b_Q", "queries of the head"),
    "key": Tensor("kD", "y W_K + b_K", "keys of the head"),
    "value": Tensor("kD", "y W_V + b_V", "values of the head"),
    "scores": Tensor(
        "rk", "query key^T / sqrt(D)", "products of the head before the mask and the softmax"
    ),
    "weights": Tensor("rk", "softmax(scores)", "weights of the head; 0 for what a row may not see"),
    "head": Tensor("rD", "weights value", "what the head returns; 0 for a masked head"),
    "context": Tensor("rd", "Concat(head_1, ..., head_h)", "what all heads return"),
    "output": Tensor(
        "rd", "context W_O + b_O", "what the sublayer adds; in a recurrence what it returns"
    ),
}
_FEED_FORWARD = {
    "inner": Tensor("rf", "x W_1 + b_1", "units before the activation"),
    "active": Tensor(
        "rf", "max(0, inner)", "units after the activation of the model, which is ReLU in the paper"
    ),
    "share": Tensor("r", "mean of (active > 0)", "share of the units that are active"),
    "output": Tensor("rd", "active W_2 + b_2", "what the sublayer adds"),
}
_NORM = {
    "carried": Tensor(
        "r", "length of x", "how long the vector is that the residual connection carries"
    ),
    "added": Tensor("r", "length of output", "how long the vector is that the sublayer adds"),
    "residual": Tensor("rd", "x + output", "the residual connection"),
    "mean": Tensor("r", "mean of residual", "LayerNorm's mean over the features"),
    "variance": Tensor(
        "r", "mean of (residual - mean)^2", "LayerNorm's variance over the features"
    ),
    "gamma": Tensor("d", "", "LayerNorm's gain"),
    "beta": Tensor("d", "", "LayerNorm's bias, as the backend adds it"),
    "norm": Tensor(
        "rd",
        "gamma (residual - mean) / sqrt(variance + epsilon) + beta",
        "what the next sublayer, the next layer or the projection to the vocabulary reads",
    ),
}
TENSORS = {
    "embedding": Tensor("rd", "E[token] sqrt(d)", "scaled embedding; of the first layer only"),
    "stream": Tensor(
        "rd", "embedding + position", "what the layer reads; further up the norm of the layer below"
    ),
    "input": Tensor("rd", "stream", "what self-attention reads; in a pre-norm model its norm"),
    **{f"self.{name}": tensor for name, tensor in (_ATTENTION | _NORM).items()},
    **{f"cross.{name}": tensor for name, tensor in (_ATTENTION | _NORM).items()},
    **{f"feed_forward.{name}": tensor for name, tensor in (_FEED_FORWARD | _NORM).items()},
    "logits": Tensor(
        "rc",
        "norm E^T + b",
        "of the best tokens of the last layer, among those the target may have",
    ),
    "normalizer": Tensor(
        "r", "log(sum(exp(all logits)))", "a log-probability is the logit minus this"
    ),
}
"""Names in the order of computation."""
CAPTURED = (
    *(
        "embedding",
        "stream",
        "input",
        "self.context",
        "self.output",
        "self.norm",
        "cross.context",
        "cross.output",
    ),
    *("cross.norm", "feed_forward.inner", "feed_forward.output", "feed_forward.norm"),
)
"""The tensors that a backend writes, in the order of the engine."""
SUBLAYERS = ("self", "cross", "feed_forward")
_OF_HEAD = ("query", "key", "value", "scores", "weights", "head")


def names(config: ModelConfig, followed: Followed) -> list[str]:
    """Returns all tensors that a model has there, in the order of computation."""
    encodes, other = followed.side == "encoder", "self" if followed.part == "cross" else "cross"
    absent = {f"{other}.{name}" for name in _OF_HEAD} | ({"embedding"} if followed.layer else set())
    if encodes:
        absent |= {name for name in TENSORS if name.startswith("cross.")} | {"logits", "normalizer"}
    elif config.recurrence != "none":
        absent |= {f"self.{name}" for name in (*_OF_HEAD, "context")}
    return [name for name in TENSORS if name not in absent]


def captured(config: ModelConfig, followed: Followed) -> list[str]:
    """Returns those that a backend writes for the requested ones."""
    needed = (
        {"stream", "input"}
        if followed.takes(*(f"{s}.{n}" for s in SUBLAYERS for n in _NORM))
        else set()
    )
    for name in followed.names:
        sublayer, _, tensor = name.rpartition(".")
        needed.add(name)
        match tensor:
            case "head":
                needed.add(f"{sublayer}.context")
            case "active" | "share":
                needed.add(f"{sublayer}.inner")
            case "residual" | "mean" | "variance" | "carried" | "added":
                needed |= {f"{name}.{part}" for name in SUBLAYERS for part in ("output", "norm")}
    return [
        name
        for name in names(config, followed)
        if name in CAPTURED and (not followed.names or name in needed)
    ]


def shape(
    config: ModelConfig, followed: Followed, name: str, source: int, queries: int
) -> tuple[int, ...]:
    """Returns the shape of a tensor for `source` tokens and `queries` inputs of the decoder."""
    rows = (source if followed.side == "encoder" else queries) if followed.position is None else 1
    keys = queries if followed.part == "decoder" else source
    sizes = {"r": rows, "k": keys, "D": config.head_dim, "d": config.d_model, "f": config.d_ff}
    sizes["c"] = min(CANDIDATES, config.vocab_size)
    return tuple(sizes[axis] for axis in TENSORS[name].axes)


def norm_parameters(
    config: ModelConfig, followed: Followed, parameter: Callable[[str], Float32]
) -> dict[str, Float32]:
    """Returns gamma and beta of the LayerNorm after each sublayer; in a pre-norm model that before
    the next. `parameter` returns one by the engine's name: `encoder.0.attention_norm.weight` or
    `decoder_norm.bias`."""
    side, layer = followed.side, followed.layer
    own = ("attention", "feed_forward") if side == "encoder" else SUBLAYERS
    layers = config.encoder_layers if side == "encoder" else config.decoder_layers
    listed = [f"{side}.{number}.{name}_norm" for number in range(layers) for name in own] + [
        f"{side}_norm"
    ]
    first = layer * len(own) + (config.norm == "pre")
    sublayers = [name for name in SUBLAYERS if side == "decoder" or name != "cross"]
    pairs = zip(sublayers, listed[first : first + len(own)], strict=True)
    fields = {"gamma": "weight", "beta": "bias"}
    return {
        f"{name}.{ours}": parameter(f"{norm}.{field}")
        for name, norm in pairs
        for ours, field in fields.items()
    }


def layer_tensors(
    config: ModelConfig, followed: Followed, maps: AttentionMaps
) -> dict[str, Float32]:
    """Returns the requested tensors of a pass, from those that a backend wrote, the head's weights
    and vectors, and scores."""
    tensors = dict(maps.tensors or {})
    rows = (
        slice(None)
        if followed.position is None
        else slice(followed.position, followed.position + 1)
    )
    part, head = followed.attention, followed.head
    if (vectors := maps.vectors) is not None:
        query = vectors.query[rows]
        tensors |= {
            f"{part}.query": query,
            f"{part}.key": vectors.key,
            f"{part}.value": vectors.value,
        }
        products = query.astype(np.float64) @ vectors.key.T  # the same for one row as for all
        tensors[f"{part}.scores"] = (products / math.sqrt(config.head_dim)).astype(np.float32)
        weights: Float32 = getattr(maps, followed.part)
        tensors[f"{part}.weights"] = weights[followed.layer, head, rows]
    if f"{part}.context" in tensors:
        tensors[f"{part}.head"] = tensors[f"{part}.context"][
            :, head * config.head_dim : (head + 1) * config.head_dim
        ]
    if "feed_forward.inner" in tensors:
        active = tensors["feed_forward.active"] = activated(config, tensors["feed_forward.inner"])
        tensors["feed_forward.share"] = (active > 0).mean(axis=-1, dtype=np.float32)
    tensors |= _residuals(config, tensors)
    if maps.normalizers is not None:
        tensors["normalizer"] = maps.normalizers[rows]
        tensors["logits"] = maps.candidate_scores[rows] + maps.normalizers[rows, None]
    wanted = [name for name in names(config, followed) if name in tensors and followed.takes(name)]
    return {name: np.ascontiguousarray(tensors[name]) for name in wanted}


def _residuals(config: ModelConfig, tensors: Mapping[str, Float32]) -> dict[str, Float32]:
    """Returns what each residual connection adds up, bit for bit, its mean and its variance."""
    sums: dict[str, Float32] = {}
    stream = tensors.get("stream")
    for sublayer in SUBLAYERS:
        if stream is None or f"{sublayer}.output" not in tensors:
            continue
        output = tensors[f"{sublayer}.output"]
        sums |= {f"{sublayer}.carried": _lengths(stream), f"{sublayer}.added": _lengths(output)}
        total = sums[f"{sublayer}.residual"] = stream + output
        sums[f"{sublayer}.mean"] = total.mean(-1, dtype=np.float64).astype(np.float32)
        sums[f"{sublayer}.variance"] = total.var(-1, dtype=np.float64).astype(np.float32)
        stream = total if config.norm == "pre" else tensors[f"{sublayer}.norm"]
    return sums


def _lengths(x: Float32) -> Float32:
    lengths: Float32 = np.sqrt(np.square(x).sum(axis=-1))
    return lengths


def check_followed(
    config: ModelConfig, followed: Followed | None, source: Sequence[int], target: Sequence[int]
) -> None:
    """Raises ValueError for a layer, position or tensor that does not exist, and for too many
    numbers. `target` excludes start and end."""
    if followed is None:
        return
    if followed.part not in KINDS:
        raise ValueError(f"There is no attention {followed.part}.")
    side, layer, position = followed.side, followed.layer, followed.position
    layers, positions = (
        (config.encoder_layers, len(source))
        if side == "encoder"
        else (config.decoder_layers, len(target) + 1)
    )
    if not 0 <= layer < layers or not 0 <= (position or 0) < positions:
        raise ValueError(f"There is no position {position or 0} in layer {layer} of the {side}.")
    existing = names(config, followed)
    if absent := [name for name in followed.names if name not in existing]:
        raise ValueError(
            f"Layer {layer} of the {side} has no tensor {absent[0]} for {followed.part}."
        )
    shapes = [
        shape(config, followed, name, len(source), len(target) + 1)
        for name in followed.names or existing
    ]
    if (numbers := sum(map(math.prod, shapes))) > NUMBERS_LIMIT:
        raise ValueError(
            f"{numbers:,} numbers are over the limit of {NUMBERS_LIMIT:,}; choose a position or "
            "fewer names."
        )
