"""Weights in Hugging Face's layout: reading of untrusted files, checks of names and shapes, conversion of names."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.config import ModelConfig
from model.convert.source_files import SUPPRESSED, ImportRefused, few, plain_name, read_object
from model.convert.tensor_names import parts
from model.positions import sinusoidal_table

_SHARED = "model.shared.weight"
_SOURCE = "model.encoder.embed_tokens.weight"
_TARGET = "model.decoder.embed_tokens.weight"
_HEAD = "lm_head.weight"
_BIAS = "final_logits_bias"
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
MAX_INDEX_BYTES = 10_000_000
_IGNORED = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")
"""Sinusoids that old M2M100 checkpoints store and transformers computes."""
_FLOATING = (torch.float32, torch.float16, torch.bfloat16)


def read_weights(path: Path, config: ModelConfig) -> dict[str, Tensor]:
    """Reads the tensors by Hugging Face's names. Raises ImportRefused unless names and shapes are those of `config`."""
    shapes = _shapes(config)
    raw: dict[str, Tensor] = {}
    reasons = []
    for file in _files(path):
        part = _read_safetensors(file, shapes) if file.suffix == ".safetensors" else _read_pickle(file)
        part = {name: tensor for name, tensor in part.items() if name not in _IGNORED}
        reasons += [f"{name} is in two files" for name in part if name in raw]
        raw |= part
    for name, tensor in raw.items():
        if name not in shapes:
            reasons.append(f"{name} is not a tensor of this architecture")
        elif tuple(tensor.shape) not in shapes[name]:
            reasons.append(f"{name} has shape {tuple(tensor.shape)}, config.json asks for {shapes[name][0]}")
        elif tensor.dtype not in _FLOATING:
            reasons.append(f"{name} is {str(tensor.dtype).removeprefix('torch.')}, not float32, float16 or bfloat16")
        elif not torch.isfinite(tensor).all():
            reasons.append(f"{name} holds numbers that are not finite")
    if reasons:
        raise ImportRefused(path, few(reasons))
    return raw


def _files(path: Path) -> list[Path]:
    """Returns the weight files: one, or the shards that an index names. safetensors are preferred to a pickle."""
    for whole in WEIGHTS:
        if (path / whole).is_file():
            return [path / whole]
        index = path / f"{whole}.index.json"
        if index.is_file():
            placed = read_object(index, most=MAX_INDEX_BYTES).get("weight_map")
            if not isinstance(placed, dict) or not placed:
                raise ImportRefused(index, ["it has no weight_map"])
            names = sorted({plain_name(index, name) for name in placed.values()})
            if wrong := [name for name in names if Path(name).suffix != Path(whole).suffix]:
                raise ImportRefused(index, [f"it names {wrong[0]}, which is not a {Path(whole).suffix} file"])
            if missing := [name for name in names if not (path / name).is_file()]:
                raise ImportRefused(path, [f"it lacks {', '.join(missing[:5])}"])
            return [path / name for name in names]
    raise ImportRefused(path, [f"it holds neither {' nor '.join(WEIGHTS)}"])


def _shapes(config: ModelConfig) -> dict[str, list[tuple[int, ...]]]:
    """Returns name -> accepted shapes."""
    target, width = config.vocab_size, config.d_model
    source = config.source_vocab_size or target
    shapes: dict[str, list[tuple[int, ...]]] = {
        _SHARED: [(target, width)],
        _SOURCE: [(source, width)],
        _TARGET: [(target, width)],
        _HEAD: [(target, width)],
        _BIAS: [(1, target), (target,)],
        **{name: [(config.max_length, width)] for name in _POSITIONS},
    }
    inner = {"fc1": (config.d_ff, width), "fc2": (width, config.d_ff)}
    for part in parts(config):
        weight = inner.get(part.huggingface.rpartition(".")[2], (width, width)) if part.linear else (width,)
        shapes[f"{part.huggingface}.weight"] = [weight]
        shapes[f"{part.huggingface}.bias"] = [weight[:1]]
    return shapes


def _read_safetensors(file: Path, shapes: dict[str, list[tuple[int, ...]]]) -> dict[str, Tensor]:
    """Reads all tensors. A tensor of an unexpected shape is not read but created on the meta device, without memory."""
    raw: dict[str, Tensor] = {}
    try:
        with safe_open(str(file), framework="pt") as archive:
            for name in archive.keys():  # noqa: SIM118 - not a mapping
                shape = tuple(archive.get_slice(name).get_shape())
                expected = shape in shapes.get(name, [])
                raw[name] = archive.get_tensor(name) if expected else torch.empty(shape, device="meta")
    except (SafetensorError, OSError, RuntimeError, OverflowError):
        raise ImportRefused(file, ["the file is not readable as safetensors"]) from None
    return raw


def _read_pickle(file: Path) -> dict[str, Tensor]:
    """Reads the state of a torch checkpoint with `weights_only`: nothing in the file is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about files that are rejected below
            raw = torch.load(file, map_location="cpu", weights_only=True, mmap=_is_zip(file))
    except pickle.UnpicklingError:
        raise ImportRefused(file, ["the file holds objects other than tensors, or is broken"]) from None
    except (RuntimeError, OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, IndexError, MemoryError):
        raise ImportRefused(file, ["the file is not readable as a torch checkpoint"]) from None
    if not isinstance(raw, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in raw.items()
    ):
        raise ImportRefused(file, ["the file does not hold a dictionary of tensors"])
    return raw


def _is_zip(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(2) == b"PK"


def convert_weights(
    path: Path, config: ModelConfig, fields: dict[str, Any], raw: dict[str, Tensor], suppressed: list[int]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Converts Hugging Face's tensors. Returns the config, with learned positions and output bias if there are any.
    The bias leaves `suppressed` tokens out of the distribution."""
    tensors: dict[str, Tensor] = {}
    missing = []
    for part in parts(config):
        for suffix in ("weight", "bias"):
            name = f"{part.huggingface}.{suffix}"
            if name in raw:
                tensors[f"{part.ours}.{suffix}"] = raw[name]
            else:
                missing.append(f"{name} is missing")
    if missing:
        raise ImportRefused(path, few(missing))
    tensors.update(_embeddings(path, config, fields, raw))
    if (table := _learned_positions(path, config, raw)) is not None:
        config = config.replace(positions="learned")
        tensors["positions.weight"] = table
    bias = raw.get(_BIAS, torch.zeros(config.vocab_size, dtype=tensors["embedding.weight"].dtype)).reshape(-1).clone()
    bias[suppressed] = SUPPRESSED
    if bias.any():
        config = config.replace(output_bias=True)
        tensors["output_bias"] = bias
    return config, tensors


def _embeddings(path: Path, config: ModelConfig, fields: dict[str, Any], raw: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns source embedding, target embedding and output projection. Tied ones may have any of several names."""
    tied_head = fields.get("tie_word_embeddings", True)
    if fields.get("share_encoder_decoder_embeddings", True):
        source = target = _one_of(path, raw, [_SHARED, _SOURCE, _TARGET, *([_HEAD] if tied_head else [])])
    else:
        source = _one_of(path, raw, [_SOURCE])
        target = _one_of(path, raw, [_TARGET, *([_HEAD] if tied_head else [])])
    if config.tied_embeddings:
        return {"embedding.weight": target}
    head = target if tied_head else _one_of(path, raw, [_HEAD])
    return {"embedding.weight": target, "source_embedding.weight": source.clone(), "projection.weight": head.clone()}


def _one_of(path: Path, raw: dict[str, Tensor], names: list[str]) -> Tensor:
    """Returns the tensor stored with one of these names. Raises ImportRefused if two of them differ."""
    present = [name for name in names if name in raw]
    if not present:
        raise ImportRefused(path, [f"{names[0]} is missing"])
    first = present[0]
    for name in present[1:]:
        if not torch.equal(raw[first], raw[name]):
            raise ImportRefused(path, [f"{name} differs from {first}, to which config.json ties it"])
    return raw[first]


def _learned_positions(path: Path, config: ModelConfig, raw: dict[str, Tensor]) -> Tensor | None:
    """Returns the stored position table, or None if it is sinusoidal (computed, not stored).

    A float16 file has rounded sinusoids. They are kept: transformers adds the stored numbers.
    """
    present = [name for name in _POSITIONS if name in raw]
    if not present:
        return None
    table = _one_of(path, raw, present)
    sinusoids = sinusoidal_table(config.max_length, config.d_model, half=True)
    return None if torch.allclose(table.float(), sinusoids, atol=1e-5) else table
