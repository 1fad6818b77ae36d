"""Reading of untrusted model files of Marian: .npz, and its binary format, version 1, with float32,
float16 or intgemm8 tensors.

A binary file has a version and a number of tensors (uint64), a header for each (lengths of name,
type, shape and data), all names, all shapes, padding to 256 bytes, and the data. An int8 matrix is
stored transposed, except embeddings, and followed by its float32 multiplier: w = q / multiplier.
Multipliers of activations (`NAME_QuantMultA`) are ignored, because the engine scales rows of
activations itself.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from model.convert.source_files import MAX_TEXT_BYTES, Tensors, unreadable
from model.model_folder import ImportRefused

_OPTIONS = "special:model.yml"
_NOT_NEEDED = ("_QuantMultA",)
_MAX_COMPRESSION = 4
"""Largest accepted ratio of unpacked to packed size: weights hardly compress."""
_FLOAT32, _FLOAT16, _INTGEMM8 = 0x404, 0x402, 0x4101
_WIDTHS = {_FLOAT32: 4, _FLOAT16: 2, _INTGEMM8: 1}
BINARY_VERSION = struct.pack("<Q", 1)
"""The first bytes of a binary file."""
_MOST_TENSORS, _LONGEST_NAME, _MOST_AXES = 10_000, 1_000, 8


def read_archive(file: Path) -> tuple[dict[str, Any], Tensors]:
    """Returns Marian's options and the tensors by name. Raises ImportRefused. Nothing is
    unpickled."""
    arrays = _read_binary(file) if file.suffix == ".bin" else _read_npz(file)
    if _OPTIONS not in arrays or arrays[_OPTIONS].nbytes > MAX_TEXT_BYTES:
        raise ImportRefused(file, [f"it lacks {_OPTIONS}"])
    text = arrays.pop(_OPTIONS).tobytes().partition(b"\0")[0]
    try:
        options = yaml.safe_load(text.decode("utf-8"))
    except (yaml.YAMLError, RecursionError, ValueError):
        options = None
    if not isinstance(options, dict):
        raise ImportRefused(file, [f"{_OPTIONS} is not YAML with an object"])
    needed = {
        name
        for name in arrays
        if not name.startswith("special:") and not name.endswith(_NOT_NEEDED)
    }
    return options, {name: arrays[name] for name in arrays if name in needed}


def _read_npz(file: Path) -> Tensors:
    try:
        with zipfile.ZipFile(file) as members:
            if (
                sum(info.file_size for info in members.infolist())
                > _MAX_COMPRESSION * file.stat().st_size
            ):
                raise ImportRefused(file, ["the archive claims to hold far more than its size"])
        with np.load(file, allow_pickle=False) as archive:
            return {name: _numbers(file, name, archive) for name in archive.files}
    except (OSError, zipfile.BadZipFile) as error:
        raise ImportRefused(file, ["the file is not readable as .npz"]) from error


def _numbers(file: Path, name: str, archive: Any) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[name]
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise ImportRefused(file, [f"{name} is broken or truncated, or holds objects"]) from error
    if (
        not isinstance(array, np.ndarray)
        or array.dtype.kind not in "fiu"
        or array.dtype.byteorder == ">"
    ):
        raise ImportRefused(file, [f"{name} does not hold numbers"])
    return array


def _read_binary(file: Path) -> Tensors:
    """Every length is checked against the size of the file."""
    try:
        data: NDArray[np.uint8] = np.memmap(file, dtype=np.uint8, mode="r")
        return {
            name: _values(file, name, kind, shape, part)
            for name, kind, shape, part in _entries(data)
        }
    except OSError as error:
        raise unreadable(file, error) from None
    except (struct.error, ValueError, OverflowError) as error:
        if isinstance(error, ImportRefused):
            raise
        raise ImportRefused(
            file, ["the file is not in Marian's binary format (version 1), or is truncated"]
        ) from None


def _entries(data: NDArray[np.uint8]) -> list[tuple[str, int, tuple[int, ...], NDArray[np.uint8]]]:
    """Returns name, type, shape and bytes of each tensor. Raises ValueError or struct.error for
    another format."""
    version, count = struct.unpack("<QQ", data[:16].tobytes())
    if version != 1 or not 0 < count <= _MOST_TENSORS:
        raise ValueError
    at = 16 + 32 * count
    headers = list(struct.iter_unpack("<QQQQ", data[16:at].tobytes()))
    names, shapes, entries = [], [], []
    for length, _, axes, _ in headers:
        if not 1 < length <= _LONGEST_NAME or axes > _MOST_AXES:
            raise ValueError
        names.append(data[at : at + length - 1].tobytes().decode("utf-8"))
        at += length
    for _, _, axes, _ in headers:
        shapes.append(struct.unpack(f"<{axes}i", data[at : at + 4 * axes].tobytes()))
        at += 4 * axes
    (padding,) = struct.unpack("<Q", data[at : at + 8].tobytes())
    at += 8 + padding
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        if min(shape, default=1) < 0 or at + size > len(data):
            raise ValueError
        entries.append((name, kind, shape, data[at : at + size]))
        at += size
    if len(set(names)) != count:
        raise ValueError
    return entries


def _values(
    file: Path, name: str, kind: int, shape: tuple[int, ...], data: NDArray[np.uint8]
) -> NDArray[Any]:
    """Returns the numbers of a tensor in float32, or the bytes of a special one."""
    if name.startswith("special:"):
        return data
    count = int(np.prod(shape, dtype=np.int64))
    if kind not in _WIDTHS:
        raise ImportRefused(
            file, [f"{name} has the type {kind:#x}, which is neither float32, float16 nor intgemm8"]
        )
    if len(data) < count * _WIDTHS[kind] + (4 if kind == _INTGEMM8 else 0):
        raise ImportRefused(file, [f"{name} is truncated"])
    numbers = data[: count * _WIDTHS[kind]].copy()
    if kind != _INTGEMM8:
        return (
            numbers.view(np.float32 if kind == _FLOAT32 else np.float16)
            .astype(np.float32)
            .reshape(shape)
        )
    [multiplier] = data[count : count + 4].copy().view(np.float32)
    if not np.isfinite(multiplier) or multiplier <= 0:
        raise ImportRefused(file, [f"{name} has the multiplier {multiplier}"])
    integers = numbers.view(np.int8)
    if "Wemb" not in name:
        integers = integers.reshape(shape[::-1]).T
    scaled: NDArray[np.float32] = np.ascontiguousarray(integers, dtype=np.float32).reshape(shape)
    scaled *= np.float32(1) / multiplier
    return scaled
