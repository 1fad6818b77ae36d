"""The weights of a model folder: model.safetensors, or shards with an index, read one tensor at a
time as NumPy arrays. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save_file

from model.config import ModelConfig
from model.model_folder import FolderError
from model.positions import sinusoidal_table

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
"""Maps each tensor to its shard, as in Hugging Face's folders."""
SAMPLE_BYTES = 4096
Float32 = NDArray[np.float32]
INT8_MAX, SCALES = 127, "int8_scales"


def weight_files(folder: Path) -> list[Path]:
    """Returns the weight files of a model folder, sorted by name. Raises FolderError if a file is
    missing, or if the index is damaged or names a file outside the folder."""
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    try:
        names = sorted(
            set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        )
    except OSError:
        raise FolderError(f"{folder} holds no {SINGLE} and no {INDEX}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FolderError(f"{folder / INDEX} is not an index of safetensors shards.") from None
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise FolderError(f"{folder / INDEX} names {name!r}, which is not a plain file name.")
        if not (folder / name).is_file():
            raise FolderError(f"{folder} lacks the shard {name}.")
    return [folder / name for name in names]


def weight_bytes(folder: Path) -> int:
    """Returns the size of the weight files. Raises FolderError as `weight_files`."""
    return sum(file.stat().st_size for file in weight_files(folder))


def hash_of_files(files: Iterable[Path], ends_bytes: int, step: int = 0) -> str:
    """Returns a hash (hexadecimal) of files in their order: names, sizes, and `ends_bytes` bytes at
    each end. With a `step` also SAMPLE_BYTES at every `step` bytes between the ends."""
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as content:
            digest.update(content.read(ends_bytes))
            for position in range(ends_bytes, size - ends_bytes, step) if step else ():
                content.seek(position)
                digest.update(content.read(SAMPLE_BYTES))
            content.seek(max(0, size - ends_bytes))
            digest.update(content.read(ends_bytes))
    return digest.hexdigest()


class SafetensorFiles(Mapping[str, Float32]):
    """Tensors by name, read and converted to float32 on access, so that only one is in memory at a
    time, besides bfloat16 files, which NumPy cannot read. Raises FolderError for a damaged file,
    and on access for numbers that are not finite."""

    def __init__(self, files: list[Path]) -> None:
        self._files: dict[str, tuple[Path, Any]] = {}
        self._bfloat16: dict[str, bytes] = {}
        self._scales: dict[str, np.float32] = {}
        for file in files:
            try:
                opened = safe_open(file, framework="numpy")
            except (SafetensorError, OSError) as error:
                again = ": copy or download it again" if isinstance(error, SafetensorError) else ""
                raise FolderError(
                    f"{file.name} is not a readable safetensors file: {error}{again}."
                ) from None
            self._files |= dict.fromkeys(opened.keys(), (file, opened))  # type: ignore[no-untyped-call]
            self._scales |= _scales(opened.metadata() or {})  # type: ignore[no-untyped-call]

    def __getitem__(self, name: str) -> Float32:
        return self.stored(name).astype(np.float32, copy=False)

    def stored(self, name: str) -> NDArray[Any]:
        """Returns a tensor in float32 or float16 as stored; float64, bfloat16 and int8 become
        float32."""
        if name not in self._files:
            raise FolderError(f"The weights lack the tensor {name}.")
        file, opened = self._files[name]
        stored = opened.get_slice(name)
        match stored.get_dtype():
            case "F32" | "F16":
                array: NDArray[Any] = opened.get_tensor(name)
            case "F64":
                array = to_float32(opened.get_tensor(name))
            case "BF16":
                if name not in self._bfloat16:
                    tensors: Any = deserialize(file.read_bytes())  # type: ignore[no-untyped-call]
                    self._bfloat16 |= {key: tensor["data"] for key, tensor in tensors}
                array = from_bfloat16(self._bfloat16[name]).reshape(stored.get_shape())
            case "I8" if name in self._scales:
                array = opened.get_tensor(name) * self._scales[name]
            case kind:
                raise FolderError(
                    f"{file.name}: {name} has the type {kind}, which is none of F64, F32, F16 and "
                    "BF16."
                )
        check_finite(file.name, name, array)
        return array

    def sizes(self) -> list[int]:
        """Returns the number of elements of each tensor, without reading it."""
        shapes = (opened.get_slice(name).get_shape() for name, (_, opened) in self._files.items())
        return [math.prod(shape) for shape in shapes]

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raises FolderError unless these are the names and shapes of all tensors."""
        for name, (file, opened) in self._files.items():
            shape = tuple(opened.get_slice(name).get_shape())
            if name not in shapes:
                raise FolderError(f"{file.name} has an extra tensor {name} of shape {shape}.")
            if shape != shapes[name]:
                raise FolderError(
                    f"{name} in {file.name} has shape {shape}; the config asks for {shapes[name]}."
                )
        if missing := sorted(shapes.keys() - self._files):
            shown = ", ".join(missing[:5]) + (
                f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            )
            raise FolderError(f"The weights lack {shown}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def save_arrays(tensors: Mapping[str, NDArray[Any]], file: Path) -> None:
    """Writes tensors to a safetensors file. Matrices that are, to the bit, a scale times int8
    integers are written as the integers; the scales are in the metadata."""
    arrays, scales = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, {}
    for name, array in arrays.items():
        if array.ndim == 2 and array.dtype == np.float32 and array.any():
            scale = np.abs(array[array != 0]).min()
            integers = np.rint(array / scale)
            if np.abs(integers).max() <= INT8_MAX and np.array_equal(integers * scale, array):
                arrays[name], scales[name] = integers.astype(np.int8), float(scale)
    save_file(
        arrays, file, metadata={"format": "pt", **({SCALES: json.dumps(scales)} if scales else {})}
    )


def _scales(metadata: Mapping[str, str]) -> dict[str, np.float32]:
    try:
        return {
            str(name): np.float32(scale)
            for name, scale in json.loads(metadata.get(SCALES, "{}")).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise FolderError("The scales of int8 matrices are not numbers.") from None


def to_float32(array: NDArray[Any]) -> Float32:
    """Returns float64 numbers in float32; those beyond its range are infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def from_bfloat16(data: bytes) -> Float32:
    """Returns numbers of bfloat16, which NumPy does not have, in float32."""
    return (np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16).view(np.float32)


def check_finite(file: str, name: str, array: NDArray[Any]) -> None:
    """Raises FolderError for a tensor with a number that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        # four times as fast as testing each, without memory
        total = np.add.reduce(array, axis=None, dtype=np.float32)
    if not np.isfinite(total) and not np.isfinite(array).all():
        raise FolderError(f"{file}: {name} has numbers that are not finite.")


def position_table(
    config: ModelConfig, tensors: Mapping[str, Float32], decoder: bool = False
) -> Float32:
    """Returns the positional encodings (max_length, d_model) of the encoder, or of the decoder."""
    if config.positions.startswith("learned"):
        own = decoder and config.positions == "learned_per_side"
        return tensors["decoder_positions.weight" if own else "positions.weight"]
    return sinusoidal_table(
        config.max_length, config.d_model, half=config.positions == "sinusoidal_half"
    )
