"""Reading of CTranslate2's model.bin, an untrusted file: named arrays, and aliases of them.

All numbers are little-endian: u32 version of the format, string name of the model, u32 its revision, u32 count of the
arrays; for each string name, u8 rank, u32 sizes, u8 type, u32 bytes, data; u32 count of aliases, two strings each. A
string is a u16 length, and the text with a zero byte.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from model.convert.source_files import ImportRefused, fits

BINARY = "model.bin"
SPECIFICATION = "TransformerSpec"
_VERSIONS = range(4, 7)
_HIGHEST_VERSION = 1_000
_TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
_MAX_ARRAYS, _MAX_RANK = 20_000, 4


@dataclass(slots=True)
class ModelBinary:
    """The arrays of a model by name. `take` removes what it returns, so that the rest can be refused."""

    file: Path
    arrays: dict[str, Tensor]
    used: set[str] = field(default_factory=set)

    def take(self, name: str, shape: tuple[int | None, ...]) -> Tensor:
        """Returns a float array; int8 and int16 ones divided by their scales. Raises ImportRefused."""
        if name not in self.arrays:
            raise ImportRefused(self.file, [f"it lacks {name}"])
        tensor = self.arrays[name]
        if not fits(tensor.shape, shape):
            raise ImportRefused(
                self.file, [f"{name} has shape {tuple(tensor.shape)}, the rest of the model asks for {shape}"]
            )
        self.used.add(name)
        if tensor.dtype in (torch.int8, torch.int16):
            tensor = self._dequantized(name, tensor)
        if not tensor.is_floating_point() or not torch.isfinite(tensor).all():
            raise ImportRefused(self.file, [f"{name} holds numbers that are not finite, or no numbers with a fraction"])
        return tensor

    def number(self, *names: str) -> float | None:
        """Returns the scalar with one of these names, None if there is none."""
        for name in names:
            if name in self.arrays and self.arrays[name].numel() == 1:
                self.used.add(name)
                return float(self.arrays[name].item())
        return None

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def unused(self) -> list[str]:
        """Returns the names of arrays that were not taken, apart from those of the same memory."""
        return sorted(set(self.arrays) - self.used)

    def _dequantized(self, name: str, tensor: Tensor) -> Tensor:
        scale = self.arrays.get(f"{name}_scale")
        self.used.add(f"{name}_scale")
        if (
            scale is None
            or not scale.is_floating_point()
            or scale.numel() not in (1, tensor.shape[0])
            or not (scale > 0).all()
        ):
            raise ImportRefused(self.file, [f"{name} has no valid scale"])
        return tensor.float() / scale.float().reshape(-1, *[1] * (tensor.dim() - 1))


def read_model_binary(file: Path) -> ModelBinary:
    """Reads model.bin of a Transformer. Raises ImportRefused."""
    try:
        with file.open("rb") as opened:
            return ModelBinary(file, _read(file, opened, file.stat().st_size))
    except OSError as error:
        raise ImportRefused(file, [f"the file cannot be read ({error.strerror or error})"]) from None
    except (struct.error, UnicodeDecodeError, EOFError):
        raise ImportRefused(file, ["the file is not a model of CTranslate2, or is truncated"]) from None


def _read(file: Path, opened: BinaryIO, size: int) -> dict[str, Tensor]:
    [version] = _unpack(opened, "<I")
    if version > _HIGHEST_VERSION:
        raise EOFError  # another format
    if version not in _VERSIONS:
        raise ImportRefused(
            file, [f"its format has version {version}; versions 4 to 6 are supported: convert it again"]
        )
    name = _string(opened)
    _unpack(opened, "<I")
    if name != SPECIFICATION:
        raise ImportRefused(file, [f"it is a {name[:40]!r}, not a translation Transformer"])
    [count] = _unpack(opened, "<I")
    if count > _MAX_ARRAYS:
        raise ImportRefused(file, [f"it claims to hold {count} arrays"])
    arrays = dict(_array(file, opened, size) for _ in range(count))
    [aliases] = _unpack(opened, "<I")
    if aliases > _MAX_ARRAYS:
        raise ImportRefused(file, [f"it claims to hold {aliases} aliases"])
    for alias, original in [(_string(opened), _string(opened)) for _ in range(aliases)]:
        if original not in arrays:
            raise ImportRefused(file, [f"{alias} stands for {original}, which is missing"])
        arrays[alias] = arrays[original]
    return arrays


def _array(file: Path, opened: BinaryIO, size: int) -> tuple[str, Tensor]:
    name = _string(opened)
    [rank] = _unpack(opened, "<B")
    if rank > _MAX_RANK:
        raise ImportRefused(file, [f"{name} has {rank} dimensions"])
    shape = _unpack(opened, f"<{rank}I")
    kind, length = _unpack(opened, "<BI")
    if kind >= len(_TYPES) or length > size:
        raise ImportRefused(file, [f"{name} has an unknown type or is longer than the file"])
    dtype = _TYPES[kind]
    data = opened.read(length)
    if len(data) != length or length != math.prod(shape) * dtype.itemsize:
        raise ImportRefused(file, [f"{name} is truncated"])
    flat = (
        torch.from_numpy(np.frombuffer(bytearray(data), dtype=np.uint8)).view(dtype)
        if length
        else torch.empty(0, dtype=dtype)
    )
    return name, flat.reshape(shape)


def _string(opened: BinaryIO) -> str:
    [length] = _unpack(opened, "<H")
    data = opened.read(length)
    if len(data) != length or length == 0:
        raise EOFError
    return data[:-1].decode("utf-8")


def _unpack(opened: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, opened.read(struct.calcsize(layout)))
