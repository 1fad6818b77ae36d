"""Checkpoints: the weights of a step and the state to resume from it; initial weights of a finished
model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import nn

from model.atomic_write import atomic_write
from model.checkpoint import load_model
from model.model_folder import FolderError, read_folder
from training.recipe import RecipeError

_STATE_FILE = "state.pt"


@dataclass(slots=True)
class Progress:
    """Position of a training, saved with every checkpoint. `index` is the next batch of `epoch`,
    `tokens` the target tokens trained on, `seconds` the training time."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    tokens: int = 0
    seconds: float = 0.0


def checkpoints(folder: Path) -> list[Path]:
    """Returns the weight files in `folder`, oldest first."""
    return sorted(folder.glob("step-*.safetensors"))


def save(
    folder: Path,
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    progress: Progress,
    keep: int,
) -> None:
    """Writes the weights of this step, then the state to resume. Keeps the last `keep` weight
    files."""
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(weights, _step_file(folder, progress.step))
    state = {
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "progress": dataclasses.asdict(progress),
    }
    with atomic_write(folder / _STATE_FILE) as part:
        torch.save(state, part)
    for old in checkpoints(folder)[:-keep]:
        old.unlink()


def load(
    folder: Path,
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    device: torch.device,
) -> Progress | None:
    """Loads the newest checkpoint in `folder` into `model` and `optimizers`. Returns None if there
    is none."""
    if not checkpoints(folder) or not (folder / _STATE_FILE).exists():
        return None
    state = torch.load(folder / _STATE_FILE, map_location=device, weights_only=True)
    progress = Progress(**state["progress"])
    model.load_state_dict(safetensors.torch.load_file(_step_file(folder, progress.step)))
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return progress


def read_progress(folder: Path) -> Progress:
    """Returns the progress of the newest checkpoint in `folder`."""
    return Progress(
        **torch.load(folder / _STATE_FILE, map_location="cpu", weights_only=True)["progress"]
    )


def start_from(folder: Path, model: nn.Module, tokenizer: Path) -> None:
    """Copies the weights of the model in `folder` to `model`, which has the vocabulary `tokenizer`.
    Raises RecipeError if `folder` is no model folder, or has another vocabulary or shape."""
    try:
        served = read_folder(folder)
        if (served.path / served.tokenizer.source).read_bytes() != tokenizer.read_bytes():
            raise RecipeError(
                f"[train] start: {folder.name} has another vocabulary; set [vocabulary] start to "
                "it too."
            )
        weights = load_model(served).state_dict()
    except (FolderError, OSError) as error:
        raise RecipeError(f"[train] start: {error}") from None
    for name, tensor in model.state_dict().items():
        if name not in weights or weights[name].shape != tensor.shape:
            raise RecipeError(
                f"[train] start: {name} has another shape in {folder.name} than in this recipe."
            )
    model.load_state_dict(weights)


def _step_file(folder: Path, step: int) -> Path:
    return folder / f"step-{step:07d}.safetensors"
