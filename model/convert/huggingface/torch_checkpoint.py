"""Reading of an untrusted pytorch_model.bin without torch. Its pickles can make only dictionaries,
lists, texts and numbers.

Since torch 1.6 it is a zip archive with NAME/data.pkl, the dictionary, and NAME/data/KEY, the
numbers of each storage. Before, it was five pickles (a magic number, a version, the machine, the
dictionary, the keys in order), and then for each key the count of numbers (int64) and the numbers.
A tensor is a storage, an offset, a shape and strides, counted in numbers.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from model.convert.source_files import ImportRefused, Tensors
from model.weight_arrays import from_bfloat16, to_float32

_BFLOAT16 = "<u2"
_TYPES = {
    "Float": "<f4",
    "Half": "<f2",
    "BFloat16": _BFLOAT16,
    "Double": "<f8",
    "Long": "<i8",
    "Int": "<i4",
}
_KNOWN: dict[tuple[str, str], Any] = {
    **{("torch", f"{name}Storage"): kind for name, kind in _TYPES.items()},
    ("torch._utils", "_rebuild_tensor_v2"): lambda *arguments: arguments[:4],
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    ("collections", "OrderedDict"): OrderedDict,
}
"""What a pickle may call or refer to."""
_NO_TENSORS = (
    "the file does not hold a dictionary of tensors alone: save the model by save_pretrained"
)
_BROKEN = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    RuntimeError,
    TypeError,
    ValueError,
    AttributeError,
)


class _Unpickler(pickle.Unpickler):
    """`storages` has the type and the count of numbers of each key that was read."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.storages: dict[str, tuple[str, int]] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError
        return _KNOWN[module, name]

    def persistent_load(self, pid: Any, /) -> str:
        _, kind, key, _, count, *views = pid
        if kind not in _TYPES.values() or any(views):
            raise ValueError
        self.storages[key] = kind, count
        return str(key)


def read_checkpoint(file: Path) -> Tensors:
    """Returns the tensors by name. Raises ImportRefused."""
    try:
        with file.open("rb") as opened:
            raw, storages = (_read_archive if zipfile.is_zipfile(opened) else _read_pickles)(opened)
        if not isinstance(raw, dict) or not all(
            type(name) is str and type(raw[name]) is tuple for name in raw
        ):
            raise ImportRefused(file, [_NO_TENSORS])
        return {name: _array(storages[storage], *view) for name, (storage, *view) in raw.items()}
    except ImportRefused:
        raise
    except pickle.UnpicklingError:
        raise ImportRefused(
            file, ["the file holds objects other than tensors, or is broken"]
        ) from None
    except (*_BROKEN, LookupError, OverflowError):
        raise ImportRefused(file, ["the file is not readable as a torch checkpoint"]) from None


def _read_archive(opened: BinaryIO) -> tuple[Any, Tensors]:
    with zipfile.ZipFile(opened) as archive:
        [name] = [
            info.filename for info in archive.infolist() if info.filename.endswith("/data.pkl")
        ]
        if any(info.compress_type for info in archive.infolist()):
            raise ValueError  # torch compresses nothing
        with archive.open(name) as pickled:
            unpickler = _Unpickler(pickled)
            raw = unpickler.load()
        storages = unpickler.storages.items()
        folder = name.removesuffix(".pkl")
        return raw, {
            key: _numbers(archive.read(f"{folder}/{key}"), *stated) for key, stated in storages
        }


def _read_pickles(opened: BinaryIO) -> tuple[Any, Tensors]:
    opened.seek(0)
    unpickler = _Unpickler(opened)
    *_, raw, keys = [unpickler.load() for _ in range(5)]
    stated = {key: unpickler.storages[key] for key in keys}
    read = {
        key: opened.read(8 + count * np.dtype(kind).itemsize)[8:]
        for key, (kind, count) in stated.items()
    }
    return raw, {key: _numbers(read[key], *stated[key]) for key in keys}


def _numbers(data: bytes, kind: str, count: int) -> NDArray[Any]:
    numbers: NDArray[Any] = from_bfloat16(data) if kind == _BFLOAT16 else np.frombuffer(data, kind)
    if len(numbers) != count:
        raise ValueError
    return to_float32(numbers) if kind == _TYPES["Double"] else numbers


def _array(
    numbers: NDArray[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> NDArray[Any]:
    """Returns a tensor, a view of the numbers of its storage. Raises ValueError if it would have
    others."""
    last = offset + sum(
        (length - 1) * stride for length, stride in zip(shape, strides, strict=True)
    )
    if (
        min((offset, *shape, *strides)) < 0
        or math.prod(shape) > len(numbers)
        or last >= len(numbers)
    ):
        raise ValueError
    return as_strided(
        numbers[offset:], shape, [stride * numbers.itemsize for stride in strides], writeable=False
    )
