"""Checkpoints: weights and everything needed to go on, in a folder or in parts that travel to another machine."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from model.training.loop.manifest import read_manifest, write_manifest
from model.training.recipe import RecipeError

PART_BYTES = 16_000_000
_STATE, _LOG, _PARTS = "state.pt", "log.jsonl", "checkpoint"
_WEIGHTS_DTYPE, _MOMENTS_DTYPE = torch.float16, torch.bfloat16
"""In parts. Weights need digits, moments of the optimisers need range."""


@dataclass(slots=True)
class Progress:
    """How far the training is; saved with every checkpoint. `seconds` are those since its first step."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    tokens: int = 0
    seconds: float = 0.0


def checkpoints(folder: Path) -> list[Path]:
    """Weights saved in `folder`, oldest first."""
    return sorted(folder.glob("step-*.safetensors"))


def save(
    folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], progress: Progress, keep: int
) -> None:
    """Write weights of this step (kept: the last `keep`) and everything needed to resume, atomically."""
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(weights, _step_file(folder, progress.step))
    state = {"optimizers": [one.state_dict() for one in optimizers], "progress": dataclasses.asdict(progress)}
    _save_state(folder, state)
    for old in checkpoints(folder)[:-keep]:
        old.unlink()


def load(
    folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], device: torch.device
) -> Progress | None:
    """Continue from the newest checkpoint in the folder; None if there is none."""
    if not checkpoints(folder) or not (folder / _STATE).exists():
        return None
    state = torch.load(folder / _STATE, map_location=device, weights_only=True)
    progress = Progress(**state["progress"])
    model.load_state_dict(safetensors.torch.load_file(_step_file(folder, progress.step)))
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return progress


def read_progress(folder: Path) -> Progress:
    """How far the newest checkpoint in `folder` is."""
    return Progress(**torch.load(folder / _STATE, map_location="cpu", weights_only=True)["progress"])


def copy_newest(folder: Path, target: Path) -> None:
    """Copy the newest checkpoint of `folder`, with everything needed to resume, to `target`."""
    shutil.copyfile(folder / _STATE, target / _STATE)
    step = read_progress(target).step
    shutil.copyfile(_step_file(folder, step), _step_file(target, step))


def average(files: Sequence[Path]) -> dict[str, Tensor]:
    """Mean of the weights of several checkpoints (section 6.1 averages the last 5), float32."""
    if not files:
        raise RecipeError("There is no checkpoint to average.")
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in safetensors.torch.load_file(file).items():
            total[name] = total.get(name, 0.0) + tensor.float() / len(files)
    return total


def export(folder: Path, parts: Path, *, last: int | None = None, part_bytes: int = PART_BYTES) -> list[Path]:
    """Write the newest checkpoint to `parts` in half precision, in files of at most `part_bytes`, with the log.

    With `last` the average of so many checkpoints, enough to package a model; without it everything needed to go on
    training elsewhere. Raises RecipeError where there is nothing to export.
    """
    parts.mkdir(parents=True, exist_ok=True)
    found = checkpoints(folder)
    tensors = average(found[-(last or 1) :])
    tensors = {f"weights.{name}": tensor.to(_WEIGHTS_DTYPE) for name, tensor in tensors.items()}
    facts: dict[str, Any] = {"step": int(found[-1].stem.removeprefix("step-")), "average_of": last}
    if last is None:
        state = torch.load(folder / _STATE, map_location="cpu", weights_only=True)
        facts |= {"step": state["progress"]["step"], "progress": state["progress"], "groups": []}
        for i, optimizer in enumerate(state["optimizers"]):
            facts["groups"].append(optimizer["param_groups"])
            tensors |= {f"optimizer.{i}.{name}": tensor for name, tensor in _moments(optimizer["state"])}
    data = memoryview(safetensors.torch.save(tensors))
    files = []
    for number, begin in enumerate(range(0, len(data), part_bytes)):
        files.append(parts / f"{_PARTS}-{number:03d}.part")
        files[-1].write_bytes(data[begin : begin + part_bytes])
    shutil.copyfile(folder / _LOG, parts / _LOG)
    write_manifest(parts, _PARTS, files, **facts)
    return files


def restore(parts: Path, folder: Path) -> int:
    """Join what `export` wrote into a checkpoint of `folder`; returns its step. Raises RecipeError for missing parts."""
    files, facts = read_manifest(parts, _PARTS)
    tensors = safetensors.torch.load(b"".join(file.read_bytes() for file in files))
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name.removeprefix("weights."): t.float() for name, t in tensors.items() if name.startswith("weights.")}
    safetensors.torch.save_file(weights, _step_file(folder, facts["step"]))
    if "progress" in facts:
        optimizers = []
        for i, groups in enumerate(facts["groups"]):
            held: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                if name.startswith(f"optimizer.{i}."):
                    _, _, index, key = name.split(".")
                    held.setdefault(int(index), {})[key] = tensor.float()
            optimizers.append({"state": held, "param_groups": groups})
        _save_state(folder, {"optimizers": optimizers, "progress": facts["progress"]})
    shutil.copyfile(parts / _LOG, folder / _LOG)
    return int(facts["step"])


def _moments(state: dict[int, dict[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    for index, held in state.items():
        for key, tensor in held.items():
            # A step's number is exact only in float32.
            yield f"{index}.{key}", tensor.to(_MOMENTS_DTYPE if tensor.numel() > 1 else torch.float32).contiguous()


def _save_state(folder: Path, state: dict[str, Any]) -> None:
    partial = folder / f"{_STATE}.partial"
    torch.save(state, partial)
    partial.replace(folder / _STATE)


def _step_file(folder: Path, step: int) -> Path:
    return folder / f"step-{step:07d}.safetensors"
