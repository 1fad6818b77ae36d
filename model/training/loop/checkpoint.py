"""Checkpoints: the weights of a step and the state needed to resume training from it."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from model.atomic_write import atomic_write
from model.training.recipe import RecipeError

MANTISSA_BITS = 4
"""Bits of the mantissa that `rounded` keeps. The loss of the default model grows by 0.0002."""
_STATE_FILE = "state.pt"


@dataclass(slots=True)
class Progress:
    """Position of a training, saved with every checkpoint.

    `index` is the next batch of `epoch`, `tokens` the target tokens trained on, `seconds` the training time.
    """

    step: int = 0
    epoch: int = 0
    index: int = 0
    tokens: int = 0
    seconds: float = 0.0


def checkpoints(folder: Path) -> list[Path]:
    """Returns the weight files in `folder`, oldest first."""
    return sorted(folder.glob("step-*.safetensors"))


def save(
    folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], progress: Progress, keep: int
) -> None:
    """Writes the weights of this step, then the state needed to resume. Keeps the last `keep` weight files."""
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(weights, _step_file(folder, progress.step))
    state = {"optimizers": [one.state_dict() for one in optimizers], "progress": dataclasses.asdict(progress)}
    with atomic_write(folder / _STATE_FILE) as part:
        torch.save(state, part)
    for old in checkpoints(folder)[:-keep]:
        old.unlink()


def load(
    folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], device: torch.device
) -> Progress | None:
    """Loads the newest checkpoint in `folder` into `model` and `optimizers`. Returns None if there is no checkpoint."""
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
    return Progress(**torch.load(folder / _STATE_FILE, map_location="cpu", weights_only=True)["progress"])


def copy_newest(folder: Path, target: Path) -> None:
    """Copies the newest checkpoint of `folder`, with the state needed to resume, to `target`."""
    shutil.copyfile(folder / _STATE_FILE, target / _STATE_FILE)
    step = read_progress(target).step
    shutil.copyfile(_step_file(folder, step), _step_file(target, step))


def average(files: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of the weights of several checkpoints in float32 (the paper, section 6.1, averages the last 5).

    Raises RecipeError if `files` is empty.
    """
    if not files:
        raise RecipeError("There is no checkpoint to average.")
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in safetensors.torch.load_file(file).items():
            total[name] = total.get(name, 0.0) + tensor.float() / len(files)
    return total


def mix(weights: dict[str, Tensor], other: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Returns (1 - share) * weights + share * other, for every tensor.

    A mean of two models trained from one start is often better than each of them (Wortsman et al. 2022, model soups).
    Raises RecipeError for a share outside 0 to 1 and for models of another shape.
    """
    if not 0.0 < share < 1.0:
        raise RecipeError(f"The share of a mixture must be between 0 and 1, not {share:g}.")
    if {name: one.shape for name, one in weights.items()} != {name: one.shape for name, one in other.items()}:
        raise RecipeError("The models of a mixture must have the same shape and vocabulary.")
    return {name: torch.lerp(tensor, other[name].float(), share) for name, tensor in weights.items()}


def rounded(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the weights with every number of a matrix rounded to MANTISSA_BITS bits, so that a compressed copy of the
    file is smaller by a third. The error is about that of int8."""
    scale = 2.0 ** (MANTISSA_BITS + 1)

    def one(tensor: Tensor) -> Tensor:
        mantissa, exponent = torch.frexp(tensor)  # mantissas from 0.5 to 1, whose first bit is not stored
        return torch.ldexp((mantissa * scale).round() / scale, exponent)

    return {name: one(tensor.float()) if tensor.dim() > 1 else tensor for name, tensor in weights.items()}


def _step_file(folder: Path, step: int) -> Path:
    return folder / f"step-{step:07d}.safetensors"
