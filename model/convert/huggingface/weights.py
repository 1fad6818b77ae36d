"""Weights in Hugging Face's layout: reading of untrusted files, checks of names and shapes,
conversion of names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig
from model.convert.huggingface.torch_checkpoint import read_checkpoint
from model.convert.source_files import (
    SUPPRESSED,
    ImportRefused,
    Tensors,
    check_tensors,
    take_tensors,
)
from model.convert.tensor_names import parts
from model.model_folder import FolderError
from model.positions import sinusoidal_table
from model.weight_arrays import SafetensorFiles

_SHARED = "model.shared.weight"
_SOURCE = "model.encoder.embed_tokens.weight"
_TARGET = "model.decoder.embed_tokens.weight"
_HEAD = "lm_head.weight"
_BIAS = "final_logits_bias"
_UNPREFIXED = ("shared.", "encoder.", "decoder.")
"""How names begin in a file of the model without its output layer, which transformers reads as
well."""
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
WEIGHTS = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
)
_IGNORED = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")
"""Sinusoids that old M2M100 checkpoints store and transformers computes."""


def read_weights(path: Path) -> Tensors:
    """Reads the tensors by Hugging Face's names, from one file or shards. safetensors are preferred
    to a pickle. Raises ImportRefused."""
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
    """Reads all tensors. The library checks that they have the sizes of their shapes and are in the
    file."""
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
    """Returns source embedding, target embedding and output projection. Tied ones may have any of
    several names."""
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
    """Returns the tensor stored with one of these names. Raises ImportRefused if two of them
    differ."""
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
    """Returns the stored position tables, one if those of encoder and decoder are equal, none if
    they are sinusoidal (computed, not stored). Rows before `first` are not used.

    A float16 file has rounded sinusoids. They are kept: transformers adds the stored numbers.
    """
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
