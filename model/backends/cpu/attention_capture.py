"""Arrays that the C++ code fills with attention weights and head vectors
(csrc/attention_capture.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_uint64, c_void_p

import numpy as np

from model.analysis.tensors import CAPTURED, captured, shape
from model.analysis.types import (
    EVERYTHING,
    Head,
    HeadVectors,
    Layers,
    MapChoice,
    check_head,
    unchosen,
)
from model.backends.cpu.bindings import Float32, address
from model.config import ModelConfig

_KINDS = {"encoder": 0, "decoder": 1, "cross": 2}
_NO_HEAD, _MASKED = -1, 64
_PART = ("held", "first_layer", "layers", "first_row", "rows")


class _Struct(ctypes.Structure):
    _fields_ = (
        *(
            (name, c_int32)
            for name in ("source", "queries", "kind", "layer", "head", "depth", "scored")
        ),
        *((name, c_int32) for name in ("followed", "followed_layer", "followed_row", *_PART)),
        *(
            (name, c_uint64)
            for name in ("encoder_layers", "decoder_layers", "cross_layers", "value_layers")
        ),
        *(
            (name, c_void_p)
            for name in ("encoder", "decoder", "cross", "query", "key", "value", "values", "gates")
        ),
        ("normalizers", c_void_p),
        ("tensors", c_void_p * len(CAPTURED)),
    )


class AttentionCapture:
    """Attention weights for S = `source` source tokens and T = `queries` decoder inputs.

    `encoder` (L, H, S, S), `decoder` (L, H, T, T), `cross` (L, H, T, S); `cross_values` (L, H, S,
    D), which only a forced decode writes; `vectors` of the head `vectors_of`, else None;
    `forget_gates` (L, T) of a decoder with a recurrence, else None; `normalizers` (T,), logarithms
    of the sums of the exponentials of the logits; `tensors` of the followed layer
    (`model.analysis.tensors`). Layers that are not chosen stay zeros; maps of a kind without any
    take no memory. Raises ValueError for an unknown head.
    """

    def __init__(
        self,
        config: ModelConfig,
        source: int,
        queries: int,
        vectors_of: Head | None = None,
        choice: MapChoice = EVERYTHING,
    ) -> None:
        cross_layers = choice.cross_layers(config.decoder_layers)
        self.encoder = _maps(choice.encoder, config.encoder_layers, config.heads, source, source)
        self.decoder = _maps(
            choice.decoder, config.decoder_layers, config.decoder_heads, queries, queries
        )
        self.cross = _maps(cross_layers, config.decoder_layers, config.heads, queries, source)
        self.cross_values = _zeros(config.decoder_layers, config.heads, source, config.head_dim)
        self.forget_gates = (
            None if config.recurrence == "none" else _zeros(config.decoder_layers, queries)
        )
        self.normalizers = _zeros(queries)
        followed = choice.followed
        self.tensors: dict[str, Float32] = {}
        if followed is not None:
            shapes = [
                (name, shape(config, followed, name, source, queries))
                for name in captured(config, followed)
            ]
            self.tensors = {name: _zeros(*shape) for name, shape in shapes}
        self.vectors: HeadVectors | None = None
        kind, layer, head = _NO_HEAD, 0, 0
        if vectors_of is not None:
            check_head(config, vectors_of)
            kind, layer, head = _KINDS[vectors_of[0]], *vectors_of[1:]
            rows = source if vectors_of[0] == "encoder" else queries
            keys = queries if vectors_of[0] == "decoder" else source
            self.vectors = HeadVectors(
                *(_zeros(count, config.head_dim) for count in (rows, keys, keys))
            )
        arrays = (self.encoder, self.decoder, self.cross)
        vectors = (
            (None,) * 3 if (held := self.vectors) is None else (held.query, held.key, held.value)
        )
        depth = choice.depth(config.decoder_layers, vectors_of)
        masks = map(_mask, (choice.encoder, choice.decoder, cross_layers, choice.value_layers))
        written = map(
            address, (*arrays, *vectors, self.cross_values, self.forget_gates, self.normalizers)
        )
        place = (_NO_HEAD, 0, 0)
        if followed is not None:
            place = (
                _KINDS[followed.side],
                followed.layer,
                -1 if followed.position is None else followed.position,
            )
        tensors = (c_void_p * len(CAPTURED))(
            *(address(self.tensors.get(name)) for name in CAPTURED)
        )
        self._struct = _Struct(
            source,
            queries,
            kind,
            layer,
            head,
            depth,
            int(choice.scores),
            *place,
            *[0] * len(_PART),
            *masks,
            *written,
            tensors,
        )

    def select(self, held: int, layers: range = range(0), rows: range = range(0)) -> None:
        """Selects the part of forced pass `held` that the next call runs: encoder layers, and
        queries. Empty ranges end it."""
        for name, value in zip(
            _PART, (held, layers.start, len(layers), rows.start, len(rows)), strict=True
        ):
            setattr(self._struct, name, value)

    @property
    def address(self) -> int:
        """Address of the C struct, valid while this object lives."""
        return ctypes.addressof(self._struct)


def _mask(layers: Sequence[int] | None) -> int:
    """Returns layers as bits, all for None; layers from 64 on are always written."""
    return (
        2**_MASKED - 1
        if layers is None
        else sum(1 << layer for layer in {*layers} if layer < _MASKED)
    )


def _maps(chosen: Layers, *shape: int) -> Float32:
    """Returns maps to be written, those of no layer as views of one zero."""
    return unchosen(shape) if chosen == () and shape[0] < _MASKED else _zeros(*shape)


def _zeros(*shape: int) -> Float32:
    return np.zeros(shape, dtype=np.float32)
