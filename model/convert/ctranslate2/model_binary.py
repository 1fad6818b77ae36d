"""Reading of CTranslate2's model.bin, an untrusted file: named arrays, and aliases of them.

Numbers are little-endian: u32 version of the format, string name of the model, u32 its revision,
u32 count of arrays; for each string name, u8 rank, u32 sizes, u8 type, u32 bytes, data; u32 count
of aliases, two strings each. A string is a u16 length, and the text with a zero byte.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from model.convert.source_files import Tensors, unreadable
from model.model_folder import ImportRefused
from model.weight_files import from_bfloat16

BINARY = "model.bin"
SPECIFICATION = "TransformerSpec"
_VERSIONS = range(4, 7)
_HIGHEST_VERSION = 1_000
_TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "<u2")
"""NumPy's types of the type numbers; the last is bfloat16."""
_MAX_ARRAYS, _MAX_RANK = 20_000, 4
_SCALE = "_scale"


def read_model_binary(file: Path) -> Tensors:
    """Returns the arrays by name. Matrices of int8 and int16 are divided by their scales. Raises
    ImportRefused."""
    try:
        with file.open("rb") as opened:
            return _read(file, opened, file.stat().st_size)
    except OSError as error:
        raise unreadable(file, error) from None
    except (struct.error, UnicodeDecodeError, EOFError):
        raise ImportRefused(
            file, ["the file is not a model of CTranslate2, or is truncated"]
        ) from None


def _read(file: Path, opened: BinaryIO, size: int) -> Tensors:
    [version] = _unpack(opened, "<I")
    if version > _HIGHEST_VERSION:
        raise EOFError  # another format
    if version not in _VERSIONS:
        raise ImportRefused(
            file,
            [f"its format has version {version}; versions 4 to 6 are supported: convert it again"],
        )
    name = _string(opened)
    _unpack(opened, "<I")
    if name != SPECIFICATION:
        raise ImportRefused(file, [f"it is a {name[:40]!r}, not a translation Transformer"])
    [count] = _unpack(opened, "<I")
    if count > _MAX_ARRAYS:
        raise ImportRefused(file, [f"it claims to hold {count} arrays"])
    stored = dict(_array(file, opened, size) for _ in range(count))
    [aliases] = _unpack(opened, "<I")
    if aliases > _MAX_ARRAYS:
        raise ImportRefused(file, [f"it claims to hold {aliases} aliases"])
    originals = {_string(opened): _string(opened) for _ in range(aliases)}
    for alias, original in originals.items():
        if original not in stored:
            raise ImportRefused(file, [f"{alias} stands for {original}, which is missing"])
    # Equal scales are aliases too, and the scale of an array may have the name of any alias of the
    # array.
    scales = stored | {alias: stored[original] for alias, original in originals.items()}
    for alias, original in originals.items():
        if alias + _SCALE in scales:
            scales.setdefault(original + _SCALE, scales[alias + _SCALE])
    arrays = {
        name: _dequantized(file, name, tensor, scales.get(name + _SCALE))
        for name, tensor in stored.items()
        if not name.endswith(_SCALE)
    }
    return arrays | {alias: arrays[name] for alias, name in originals.items() if name in arrays}


def _array(file: Path, opened: BinaryIO, size: int) -> tuple[str, NDArray[Any]]:
    name = _string(opened)
    [rank] = _unpack(opened, "<B")
    if rank > _MAX_RANK:
        raise ImportRefused(file, [f"{name} has {rank} dimensions"])
    shape = _unpack(opened, f"<{rank}I")
    kind, length = _unpack(opened, "<BI")
    if kind >= len(_TYPES) or length > size:
        raise ImportRefused(file, [f"{name} has an unknown type or is longer than the file"])
    dtype = np.dtype(_TYPES[kind])
    data = opened.read(length)
    if len(data) != length or length != math.prod(shape) * dtype.itemsize:
        raise ImportRefused(file, [f"{name} is truncated"])
    flat = from_bfloat16(data) if kind == len(_TYPES) - 1 else np.frombuffer(data, dtype)
    return name, flat.reshape(shape)


def _dequantized(
    file: Path, name: str, tensor: NDArray[Any], scale: NDArray[Any] | None
) -> NDArray[Any]:
    if tensor.dtype not in (np.int8, np.int16) or tensor.ndim < 2:
        return tensor
    rows = tensor.shape[0]
    if (
        scale is None
        or scale.dtype.kind != "f"
        or scale.size not in (1, rows)
        or not (scale > 0).all()
    ):
        raise ImportRefused(file, [f"{name} has no valid scale"])
    divisors: NDArray[np.float32] = scale.astype(np.float32).reshape(-1, *[1] * (tensor.ndim - 1))
    return tensor.astype(np.float32) / divisors


def _string(opened: BinaryIO) -> str:
    [length] = _unpack(opened, "<H")
    data = opened.read(length)
    if len(data) != length or length == 0:
        raise EOFError
    return data[:-1].decode("utf-8")


def _unpack(opened: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, opened.read(struct.calcsize(layout)))
