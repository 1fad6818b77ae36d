"""Arrays that the C++ code fills with attention weights and head vectors (csrc/attention_capture.h)."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_void_p

import numpy as np

from model.analysis.types import Head, HeadVectors, check_head
from model.backends.cpu.bindings import Float32, address
from model.config import ModelConfig

_KINDS = {"encoder": 0, "decoder": 1, "cross": 2}
_NO_HEAD = -1


class _Struct(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("source", "queries", "kind", "layer", "head")),
        *((name, c_void_p) for name in ("encoder", "decoder", "cross", "query", "key", "value", "values", "gates")),
    )


class AttentionCapture:
    """Attention weights for S = `source` source tokens and T = `queries` decoder inputs.

    `encoder` (L, H, S, S), `decoder` (L, H, T, T), `cross` (L, H, T, S); the values `cross_values` (L, H, S, D) of
    cross-attention, which only a forced decode writes; `vectors` of the head `vectors_of`, else None;
    `forget_gates` (L, T) of a decoder with a recurrence, else None.
    Raises ValueError for an unknown head.
    """

    def __init__(self, config: ModelConfig, source: int, queries: int, vectors_of: Head | None = None) -> None:
        self.encoder = _zeros(config.encoder_layers, config.heads, source, source)
        self.decoder = _zeros(config.decoder_layers, config.decoder_heads, queries, queries)
        self.cross = _zeros(config.decoder_layers, config.heads, queries, source)
        self.cross_values = _zeros(config.decoder_layers, config.heads, source, config.head_dim)
        self.forget_gates = None if config.recurrence == "none" else _zeros(config.decoder_layers, queries)
        self.vectors: HeadVectors | None = None
        kind, layer, head = _NO_HEAD, 0, 0
        if vectors_of is not None:
            check_head(config, vectors_of)
            kind, layer, head = _KINDS[vectors_of[0]], *vectors_of[1:]
            rows = source if vectors_of[0] == "encoder" else queries
            keys = queries if vectors_of[0] == "decoder" else source
            self.vectors = HeadVectors(*(_zeros(count, config.head_dim) for count in (rows, keys, keys)))
        arrays = (self.encoder, self.decoder, self.cross)
        vectors = (None,) * 3 if (found := self.vectors) is None else (found.query, found.key, found.value)
        self._struct = _Struct(
            source, queries, kind, layer, head, *map(address, (*arrays, *vectors, self.cross_values, self.forget_gates))
        )

    @property
    def address(self) -> int:
        """Address of the C struct. The caller keeps this object alive."""
        return ctypes.addressof(self._struct)


def _zeros(*shape: int) -> Float32:
    return np.zeros(shape, dtype=np.float32)
