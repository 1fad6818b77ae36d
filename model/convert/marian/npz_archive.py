"""Reading of untrusted .npz files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from model.convert.source_files import MAX_TEXT_BYTES, ImportRefused, finite, fits, parse_options

Shape = tuple[int | None, ...]
_OPTIONS = "special:model.yml"
_FLOATING = (np.dtype("float32"), np.dtype("float16"))
_MAX_COMPRESSION = 4
"""Largest accepted ratio of unpacked to packed size. Weights hardly compress; a larger ratio is an attack."""


class Archive:
    """Arrays of an .npz file. An array is read only if its header has the expected shape and type. Nothing is
    unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
        except (OSError, zipfile.BadZipFile, ValueError):
            raise ImportRefused(file, ["the file is not readable as .npz"]) from None
        members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}
        if sum(info.file_size for info in members.values()) > _MAX_COMPRESSION * max(1, file.stat().st_size):
            raise ImportRefused(file, ["the archive claims to hold far more than its size"])
        self.members = members

    def options(self) -> dict[str, Any]:
        """Returns Marian's options, stored as YAML. Raises ImportRefused."""
        if _OPTIONS not in self.members:
            raise ImportRefused(self._file, [f"it lacks {_OPTIONS}"])
        if self.members[_OPTIONS].file_size > MAX_TEXT_BYTES:
            raise ImportRefused(self._file, [f"{_OPTIONS} is larger than {MAX_TEXT_BYTES} bytes"])
        array = self._array(_OPTIONS, (None,), (np.dtype("int8"), np.dtype("uint8")))
        return parse_options(self._file, _OPTIONS, array.tobytes().rstrip(b"\0"))

    def tensor(self, name: str, shape: Shape) -> Tensor:
        """Returns the array `name`; None in `shape` accepts any size. Raises ImportRefused, also for NaN and
        infinity."""
        return finite(self._file, name, torch.from_numpy(self._array(name, shape, _FLOATING)))

    def _array(self, name: str, shape: Shape, dtypes: tuple[np.dtype[Any], ...]) -> np.ndarray[Any, Any]:
        info = self.members[name]
        try:
            with self._zip.open(info) as member:
                version = npy.read_magic(member)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                stored, fortran, dtype = read(member)
                if dtype not in dtypes or fortran:
                    raise ImportRefused(
                        self._file, [f"{name} is {dtype}, not {' or '.join(map(str, dtypes))} in C order"]
                    )
                if not fits(stored, shape):
                    raise ImportRefused(self._file, [f"{name} has shape {stored}, the options ask for {shape}"])
                data = member.read(info.file_size)
        except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
            if isinstance(error, ImportRefused):
                raise
            raise ImportRefused(self._file, [f"{name} is truncated or broken"]) from None
        if len(data) != int(np.prod(stored, dtype=np.int64)) * dtype.itemsize:
            raise ImportRefused(self._file, [f"{name} is truncated"])
        return np.frombuffer(bytearray(data), dtype=dtype).reshape(stored)

    def close(self) -> None:
        self._zip.close()
