"""Optimisers and schedules: Adam as in the paper, or Muon for the matrices inside the layers with Adam for the rest."""

from __future__ import annotations

import math

import torch
from torch import nn

from model.training.loop.muon import Muon
from model.training.recipe import RecipeError, TrainRecipe


def build_optimizers(model: nn.Module, recipe: TrainRecipe) -> list[torch.optim.Optimizer]:
    """Adam(0.9, 0.98, 1e-9) over everything (section 5.3), or Muon (Jordan 2024) over the layers' weight matrices, whose
    update is orthogonalised, and Adam over embeddings, norms and biases."""
    parameters = dict(model.named_parameters())
    if recipe.optimizer == "adam":
        return [_adam(list(parameters.values()), recipe)]
    if recipe.optimizer != "muon":
        raise RecipeError(f"[train] optimizer must be adam or muon, not {recipe.optimizer}.")
    matrices = [p for name, p in parameters.items() if p.dim() == 2 and name.startswith(("encoder.", "decoder."))]
    chosen = {id(p) for p in matrices}
    rest = [p for p in parameters.values() if id(p) not in chosen]
    muon = Muon(matrices, recipe.matrix_rate, weight_decay=recipe.weight_decay)
    return [muon, _adam(rest, recipe)]


def _adam(parameters: list[nn.Parameter], recipe: TrainRecipe) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=recipe.rate, betas=(0.9, 0.98), eps=1e-9, fused=True)


def noam(step: int, d_model: int, warmup: int) -> float:
    """Learning rate of the paper's equation 3 at `step` >= 1: rises linearly for `warmup` steps, falls with 1/sqrt(step)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def wsd(step: int, progress: float, warmup: int, decay: float) -> float:
    """Factor on the peak rate: warm up over `warmup` steps, stay, fall as 1 - sqrt over the last `decay` share of progress."""
    rise = min(1.0, step / max(1, warmup))
    if progress <= 1.0 - decay:
        return rise
    fallen = min(1.0, (progress - (1.0 - decay)) / decay)
    return rise * (1.0 - math.sqrt(fallen))


def set_rates(
    optimizers: list[torch.optim.Optimizer], recipe: TrainRecipe, d_model: int, step: int, progress: float
) -> float:
    """Set every optimiser's rate for `step` (from 1) at `progress` (0 to 1) of the budget; returns Adam's rate."""
    if recipe.schedule == "noam":
        factor = noam(step, d_model, recipe.warmup) / recipe.rate
    elif recipe.schedule == "wsd":
        factor = wsd(step, progress, recipe.warmup, recipe.decay)
    else:
        raise RecipeError(f"[train] schedule must be noam or wsd, not {recipe.schedule}.")
    for optimizer in optimizers:
        peak = recipe.matrix_rate if isinstance(optimizer, Muon) else recipe.rate
        for group in optimizer.param_groups:
            group["lr"] = peak * factor
    return recipe.rate * factor
