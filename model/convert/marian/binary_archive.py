"""Reading of untrusted model files in Marian's binary format, version 1, with float32, float16 or intgemm8 tensors.

The file has a version and a number of tensors (uint64), a header for each (lengths of name, type, shape and data), all
names, all shapes, padding to 256 bytes, and the data. An int8 matrix is stored transposed, except embeddings, and a
float32 after it is its multiplier: w = q / multiplier. Activations have multipliers too (`NAME_QuantMultA`, "alphas");
they are not needed here, because rows of activations have their own scales (model/calibration.py).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.convert.source_files import MAX_TEXT_BYTES, ImportRefused, finite, fits, parse_options

SCALE_OF_INPUTS = "_QuantMultA"
_OPTIONS = "special:model.yml"
_FLOAT32, _FLOAT16, _INTGEMM8 = 0x404, 0x402, 0x4101
_MOST_TENSORS, _LONGEST_NAME, _MOST_AXES = 10_000, 1_000, 8


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: int
    shape: tuple[int, ...]
    start: int
    size: int


class BinaryArchive:
    """Tensors of a model file by name. Every length is checked against the size of the file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._bytes: NDArray[np.uint8] = np.memmap(file, dtype=np.uint8, mode="r")
        except OSError as error:
            raise ImportRefused(file, [f"the file cannot be read ({error.strerror or error})"]) from None
        except ValueError:
            raise ImportRefused(file, ["the file is empty"]) from None
        try:
            self.members = self._read_headers()
        except (struct.error, ValueError, OverflowError):
            raise ImportRefused(
                file, ["the file is not in Marian's binary format (version 1), or is truncated"]
            ) from None

    def options(self) -> dict[str, Any]:
        """Returns Marian's options, stored as YAML. Raises ImportRefused."""
        entry = self.members.get(_OPTIONS)
        if entry is None or entry.size > MAX_TEXT_BYTES:
            raise ImportRefused(self._file, [f"it lacks {_OPTIONS}"])
        return parse_options(self._file, _OPTIONS, self._data(entry).tobytes().partition(b"\0")[0])

    def tensor(self, name: str, shape: tuple[int | None, ...]) -> Tensor:
        """Returns a tensor in float32; None in `shape` accepts any size. Raises ImportRefused, also for NaN and
        infinity."""
        entry = self.members[name]
        if not fits(entry.shape, shape):
            raise ImportRefused(self._file, [f"{name} has shape {entry.shape}, the options ask for {shape}"])
        return finite(self._file, name, torch.from_numpy(self._values(name, entry)))

    def close(self) -> None:
        """Releases the file."""
        self._bytes = np.zeros(0, np.uint8)

    def _read_headers(self) -> dict[str, _Entry]:
        """Returns the tensors by name. Raises ValueError or struct.error for a file of another format."""
        version, count = struct.unpack("<QQ", self._slice(0, 16))
        if version != 1 or not 0 < count <= _MOST_TENSORS:
            raise ValueError
        headers = list(struct.iter_unpack("<QQQQ", self._slice(16, 32 * count)))
        at = 16 + 32 * count
        names, shapes = [], []
        for length, _, _, _ in headers:
            if not 1 < length <= _LONGEST_NAME:
                raise ValueError
            names.append(self._slice(at, length)[:-1].decode("utf-8"))
            at += length
        for _, _, axes, _ in headers:
            if axes > _MOST_AXES:
                raise ValueError
            shapes.append(struct.unpack(f"<{axes}i", self._slice(at, 4 * axes)))
            at += 4 * axes
        (padding,) = struct.unpack("<Q", self._slice(at, 8))
        at += 8 + padding
        members: dict[str, _Entry] = {}
        for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
            if name in members or min(shape, default=1) < 0 or at + size > len(self._bytes):
                raise ValueError
            members[name] = _Entry(kind, shape, at, size)
            at += size
        return members

    def _slice(self, start: int, size: int) -> bytes:
        return self._bytes[start : start + size].tobytes()

    def _data(self, entry: _Entry) -> NDArray[np.uint8]:
        return self._bytes[entry.start : entry.start + entry.size]

    def _values(self, name: str, entry: _Entry) -> NDArray[np.float32]:
        """Returns the numbers of a tensor in its shape."""
        count = int(np.prod(entry.shape, dtype=np.int64))
        widths = {_FLOAT32: 4, _FLOAT16: 2, _INTGEMM8: 1}
        if entry.kind not in widths:
            raise ImportRefused(
                self._file, [f"{name} has the type {entry.kind:#x}, which is neither float32, float16 nor intgemm8"]
            )
        if entry.size < count * widths[entry.kind] + (4 if entry.kind == _INTGEMM8 else 0):
            raise ImportRefused(self._file, [f"{name} is truncated"])
        data = self._data(entry)
        if entry.kind != _INTGEMM8:
            dtype = np.float32 if entry.kind == _FLOAT32 else np.float16
            values = data[: count * widths[entry.kind]].copy().view(dtype).astype(np.float32)
            return values.reshape(entry.shape)
        [multiplier] = data[count : count + 4].copy().view(np.float32)
        if not np.isfinite(multiplier) or multiplier <= 0:
            raise ImportRefused(self._file, [f"{name} has the multiplier {multiplier}"])
        integers = data[:count].copy().view(np.int8)
        if "Wemb" not in name:
            integers = integers.reshape(entry.shape[::-1]).T
        scaled: NDArray[np.float32] = np.ascontiguousarray(integers, dtype=np.float32).reshape(entry.shape)
        scaled *= np.float32(1) / multiplier
        return scaled
