"""Weights of a model folder as NumPy arrays, read one at a time from safetensors files without torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from model.backends.cpu.bindings import Float32
from model.config import ModelConfig
from model.model_folder import FolderError

_MAX_HEADER_BYTES = 10_000_000
_WIDTHS = {"F32": 4, "F16": 2, "BF16": 2}


class SafetensorFiles(Mapping[str, Float32]):
    """Tensors by name, read and converted to float32 on access, so that only one is in memory at a time.

    Raises FolderError for an invalid header, and on access for numbers that are not finite. The format: 8 bytes
    little-endian header size, the JSON header {name: {dtype, shape, data_offsets}}, the data
    (github.com/huggingface/safetensors).
    """

    def __init__(self, files: list[Path]) -> None:
        self._entries: dict[str, tuple[Path, int, str, tuple[int, ...]]] = {}
        for file in files:
            self._read_header(file)

    def __getitem__(self, name: str) -> Float32:
        if name not in self._entries:
            raise FolderError(f"The weights lack the tensor {name}.")
        file, offset, kind, shape = self._entries[name]
        array = _read(file, offset, kind, math.prod(shape))
        check_finite(file.name, name, array)
        return array.reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _read_header(self, file: Path) -> None:
        try:
            with file.open("rb") as stream:
                length = int.from_bytes(stream.read(8), "little")
                if not 2 <= length <= _MAX_HEADER_BYTES:
                    raise FolderError(f"{file.name} is not a safetensors file: its header has {length} bytes.")
                header = json.loads(stream.read(length))
            size = file.stat().st_size - 8 - length
            for name, entry in header.items():
                if name != "__metadata__":
                    kind, shape, begin = _checked(file, name, entry, size)
                    self._entries[name] = (file, 8 + length + begin, kind, shape)
        except OSError as error:
            raise FolderError(f"{file.name} cannot be read: {error.strerror}.") from None
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            if isinstance(error, FolderError):
                raise
            raise FolderError(f"{file.name} is not a safetensors file.") from None


def _read(file: Path, offset: int, kind: str, count: int) -> Float32:
    """Reads numbers of a file as float32."""
    if kind == "BF16":
        halves = np.fromfile(file, dtype="<u2", count=count, offset=offset)
        return (halves.astype(np.uint32) << 16).view(np.float32)
    stored = np.fromfile(file, dtype="<f4" if kind == "F32" else "<f2", count=count, offset=offset)
    return stored.astype(np.float32, copy=False)


def check_finite(file: str, name: str, array: Float32) -> None:
    """Raises FolderError for a tensor with a number that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduce(array, axis=None)  # four times as fast as testing every number, and needs no memory
    if not np.isfinite(total) and not np.isfinite(array).all():
        raise FolderError(f"{file}: {name} has numbers that are not finite.")


def _checked(file: Path, name: str, entry: Any, size: int) -> tuple[str, tuple[int, ...], int]:
    kind, shape = entry["dtype"], tuple(int(length) for length in entry["shape"])
    begin, end = (int(offset) for offset in entry["data_offsets"])
    if kind not in _WIDTHS:
        raise FolderError(f"{file.name}: {name} has the type {kind}, which is not a floating point type.")
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= size or end - begin != math.prod(shape) * _WIDTHS[kind]:
        raise FolderError(f"{file.name}: {name} does not fit its place in the file.")
    return kind, shape, begin


def position_table(config: ModelConfig, tensors: Mapping[str, Float32]) -> Float32:
    """Returns the positional encodings (max_length, d_model), as in model/positions.py."""
    if config.positions == "learned":
        return tensors["positions.weight"]
    half = config.d_model // 2
    rates = 10000.0 ** (-2.0 * np.arange(half, dtype=np.float64) / config.d_model)
    angles = np.arange(config.max_length, dtype=np.float64)[:, None] * rates
    if config.positions == "sinusoidal_half":
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(config.max_length, -1).astype(np.float32)
