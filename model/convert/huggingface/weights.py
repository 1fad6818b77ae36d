"""Weights in Hugging Face's layout: reading of untrusted files, checks of names and shapes, conversion of names."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from model.config import ModelConfig
from model.convert.source_files import SUPPRESSED, ImportRefused, check_tensors, take_tensors
from model.convert.tensor_names import parts
from model.positions import sinusoidal_table

_SHARED = "model.shared.weight"
_SOURCE = "model.encoder.embed_tokens.weight"
_TARGET = "model.decoder.embed_tokens.weight"
_HEAD = "lm_head.weight"
_BIAS = "final_logits_bias"
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin", "pytorch_model-*-of-*.bin")
_IGNORED = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")
"""Sinusoids that old M2M100 checkpoints store and transformers computes."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """Reads the tensors by Hugging Face's names, from one file or shards. safetensors are preferred to a pickle. Raises
    ImportRefused."""
    stored: dict[str, Tensor] = {}
    files = next(filter(None, (sorted(path.glob(name)) for name in WEIGHTS)), None)
    if files is None:
        raise ImportRefused(path, ["it holds neither model.safetensors nor pytorch_model.bin"])
    for file in files:
        part = _read_safetensors(file) if file.suffix == ".safetensors" else _read_pickle(file)
        if twice := [name for name in part if name in stored]:
            raise ImportRefused(path, [f"{twice[0]} is in two files"])
        stored |= {name: tensor for name, tensor in part.items() if name not in _IGNORED}
    return stored


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    """Reads all tensors. The library checks that they have the sizes of their shapes and are in the file."""
    try:
        return load_file(file)
    except (SafetensorError, OSError, RuntimeError, OverflowError):
        raise ImportRefused(file, ["the file is not readable as safetensors"]) from None


def _read_pickle(file: Path) -> dict[str, Tensor]:
    """Reads the state of a torch checkpoint with `weights_only`: nothing in the file is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about files that are rejected below
            raw = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except pickle.UnpicklingError:
        raise ImportRefused(file, ["the file holds objects other than tensors, or is broken"]) from None
    except (RuntimeError, OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, IndexError, MemoryError):
        raise ImportRefused(file, ["the file is not readable as a torch checkpoint"]) from None
    if not isinstance(raw, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in raw.items()
    ):
        raise ImportRefused(file, ["the file does not hold a dictionary of tensors"])
    return raw


def convert_weights(
    path: Path, config: ModelConfig, fields: dict[str, Any], stored: dict[str, Tensor], suppressed: list[int]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Converts Hugging Face's tensors. Returns the config, with learned positions and output bias if there are any.
    The bias leaves `suppressed` tokens out of the distribution."""
    names = {
        f"{part.ours}.{suffix}": f"{part.huggingface}.{suffix}"
        for part in parts(config)
        for suffix in ("weight", "bias")
    }
    tensors = take_tensors(path, stored, names) | _embeddings(path, config, fields, stored)
    if (table := _learned_positions(path, config, stored)) is not None:
        config = config.replace(positions="learned")
        tensors["positions.weight"] = table
    zero = torch.zeros(config.vocab_size, dtype=tensors["embedding.weight"].dtype)
    bias = stored.get(_BIAS, zero).flatten().clone()
    if suppressed and bias.shape == zero.shape:
        bias[suppressed] = SUPPRESSED
    if bias.any():
        config = config.replace(output_bias=True)
        tensors["output_bias"] = bias
    known = {_SHARED, _SOURCE, _TARGET, _HEAD, _BIAS, *_POSITIONS}  # equal to those that are used, or not used
    check_tensors(path, config, tensors, set(stored) - known)
    return config, tensors


def _embeddings(
    path: Path, config: ModelConfig, fields: dict[str, Any], stored: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Returns source embedding, target embedding and output projection. Tied ones may have any of several names."""
    tied_head = fields.get("tie_word_embeddings", True)
    if fields.get("share_encoder_decoder_embeddings", True):
        source = target = _one_of(path, stored, [_SHARED, _SOURCE, _TARGET, *([_HEAD] if tied_head else [])])
    else:
        source = _one_of(path, stored, [_SOURCE])
        target = _one_of(path, stored, [_TARGET, *([_HEAD] if tied_head else [])])
    if config.tied_embeddings:
        return {"embedding.weight": target}
    head = target if tied_head else _one_of(path, stored, [_HEAD])
    return {"embedding.weight": target, "source_embedding.weight": source.clone(), "projection.weight": head.clone()}


def _one_of(path: Path, stored: dict[str, Tensor], names: list[str]) -> Tensor:
    """Returns the tensor stored with one of these names. Raises ImportRefused if two of them differ."""
    present = [name for name in names if name in stored]
    if not present:
        raise ImportRefused(path, [f"{names[0]} is missing"])
    first = present[0]
    for name in present[1:]:
        if not torch.equal(stored[first], stored[name]):
            raise ImportRefused(path, [f"{name} differs from {first}, to which config.json ties it"])
    return stored[first]


def _learned_positions(path: Path, config: ModelConfig, stored: dict[str, Tensor]) -> Tensor | None:
    """Returns the stored position table, or None if it is sinusoidal (computed, not stored).

    A float16 file has rounded sinusoids. They are kept: transformers adds the stored numbers.
    """
    present = [name for name in _POSITIONS if name in stored]
    if not present:
        return None
    table = _one_of(path, stored, present)
    if table.shape != (config.max_length, config.d_model):
        return table
    sinusoids = torch.from_numpy(sinusoidal_table(config.max_length, config.d_model, half=True))
    return None if torch.allclose(table.float(), sinusoids, atol=1e-5) else table
