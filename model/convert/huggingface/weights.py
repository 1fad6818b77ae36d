"""Weights in Hugging Face's layout: reading of untrusted files and conversion of names.

pytorch_model.bin is read without torch; its pickles can make only dictionaries, lists, texts and
numbers. Since torch 1.6 it is a zip archive with NAME/data.pkl, the dictionary, and NAME/data/KEY,
the numbers of each storage. Before, it was five pickles (magic number, version, machine,
dictionary, keys in order), and for each key the count of numbers (int64) and the numbers. A tensor
is a storage, an offset, a shape and strides, counted in numbers.
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

from model.config import ModelConfig
from model.convert.source_files import SUPPRESSED, Tensors, check_tensors, take_tensors
from model.convert.tensor_names import parts
from model.model_folder import FolderError, ImportRefused
from model.positions import sinusoidal_table
from model.weight_files import SafetensorFiles, from_bfloat16, to_float32

_SHARED = "model.shared.weight"
_SOURCE = "model.encoder.embed_tokens.weight"
_TARGET = "model.decoder.embed_tokens.weight"
_HEAD = "lm_head.weight"
_BIAS = "final_logits_bias"
_UNPREFIXED = ("shared.", "encoder.", "decoder.")
"""Beginnings of names in a file without the output layer, which transformers also reads."""
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
WEIGHTS = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
)
_IGNORED = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")
"""Sinusoids that old M2M100 checkpoints store and transformers computes."""
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
"""What a pickle may refer to or call."""
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


def read_weights(path: Path) -> Tensors:
    """Reads the tensors by Hugging Face's names, from one file or shards; prefers safetensors to a
    pickle. Raises ImportRefused."""
    stored: Tensors = {}
    files = next(filter(None, (sorted(path.glob(name)) for name in WEIGHTS)), None)
    if files is None:
        raise ImportRefused(path, ["it holds neither model.safetensors nor pytorch_model.bin"])
    total = files[0].stem.rpartition("-of-")[2]  # of the names of shards
    if total.isdecimal() and len(files) != int(total):
        raise ImportRefused(
            path,
            [
                f"its weights are {len(files)} files, whose names state {int(total)}: give all of "
                "them"
            ],
        )
    for file in files:
        part = _read_safetensors(file) if file.suffix == ".safetensors" else read_checkpoint(file)
        if twice := [name for name in part if name in stored]:
            raise ImportRefused(path, [f"{twice[0]} is in two files"])
        stored |= part
    if not any(name.startswith("model.") for name in stored):
        stored = {
            f"model.{name}" if name.startswith(_UNPREFIXED) else name: stored[name]
            for name in stored
        }
    return {name: tensor for name, tensor in stored.items() if name not in _IGNORED}


def _read_safetensors(file: Path) -> Tensors:
    try:
        stored = SafetensorFiles([file])
        return {name: stored.stored(name) for name in stored}
    except FolderError as error:
        raise ImportRefused(file, [str(error).rstrip(".")]) from None


def convert_weights(
    path: Path,
    config: ModelConfig,
    fields: dict[str, Any],
    stored: Tensors,
    suppressed: list[int],
    first_position: int = 0,
) -> tuple[ModelConfig, Tensors]:
    """Converts Hugging Face's tensors. Returns the config, with learned positions and output bias
    if there are any. The bias leaves `suppressed` tokens out of the distribution."""
    names = {
        f"{part.ours}.{suffix}": f"{part.huggingface}.{suffix}"
        for part in parts(config)
        for suffix in ("weight", "bias")
    }
    tensors = take_tensors(path, stored, names) | _embeddings(path, config, fields, stored)
    if positions := _learned_positions(config, stored, first_position):
        config = config.replace(positions="learned" if len(positions) == 1 else "learned_per_side")
        tensors |= positions
    zero = np.zeros(config.vocab_size, tensors["embedding.weight"].dtype)
    bias = stored.get(_BIAS, zero).flatten()
    if suppressed and bias.shape == zero.shape:
        bias[suppressed] = SUPPRESSED
    if bias.any():
        config = config.replace(output_bias=True)
        tensors["output_bias"] = bias
    # equal to those that are used, or not used
    known = {_SHARED, _SOURCE, _TARGET, _HEAD, _BIAS, *_POSITIONS}
    check_tensors(path, config, tensors, set(stored) - known)
    return config, tensors


def _embeddings(
    path: Path, config: ModelConfig, fields: dict[str, Any], stored: Tensors
) -> Tensors:
    """Returns source embedding, target embedding and output projection. Tied ones may have several
    names."""
    tied = fields.get("tie_word_embeddings", True)
    # nothing is tied: each side reads its own matrix, which old checkpoints store only as the
    # shared one
    if not tied:
        source, target, head = (
            _one_of(path, stored, [name if name in stored else _SHARED])
            for name in (_SOURCE, _TARGET, _HEAD)
        )
    elif fields.get("share_encoder_decoder_embeddings", True):
        source = target = head = _one_of(path, stored, [_SHARED, _SOURCE, _TARGET, _HEAD])
    else:
        source = _one_of(path, stored, [_SOURCE])
        target = head = _one_of(path, stored, [_TARGET, _HEAD])
    if config.tied_embeddings:
        return {"embedding.weight": target}
    return {
        "embedding.weight": target,
        "source_embedding.weight": source,
        "projection.weight": head,
    }


def _one_of(path: Path, stored: Tensors, names: list[str]) -> NDArray[Any]:
    """Returns the tensor stored with one of these names. Raises ImportRefused if two differ."""
    present = [name for name in names if name in stored]
    if not present:
        raise ImportRefused(path, [f"{names[0]} is missing"])
    first = present[0]
    for name in present[1:]:
        if not np.array_equal(stored[first], stored[name]):
            raise ImportRefused(
                path, [f"{name} differs from {first}, to which config.json ties it"]
            )
    return stored[first]


def _learned_positions(config: ModelConfig, stored: Tensors, first: int) -> Tensors:
    """Returns the stored position tables: one if encoder and decoder have equal ones, none if they
    are sinusoidal. Rows before `first` are not used. Rounded sinusoids of a float16 file are kept,
    because transformers adds the stored numbers."""
    tables = [stored[name][first:] for name in _POSITIONS if name in stored]
    if len(tables) == 2 and not np.array_equal(tables[0], tables[1]):
        return dict(zip(("positions.weight", "decoder_positions.weight"), tables, strict=True))
    for table in tables[:1]:
        shape = config.max_length, config.d_model
        if table.shape != shape or not np.allclose(
            table, sinusoidal_table(*shape, half=True), atol=1e-5
        ):
            return {"positions.weight": table}
    return {}


class _Unpickler(pickle.Unpickler):
    """`storages` has the type and the count of numbers of each key."""

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
    """Returns the tensors of pytorch_model.bin by name. Raises ImportRefused."""
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
    """Returns a tensor as a view of its storage. Raises ValueError if it reaches beyond it."""
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
