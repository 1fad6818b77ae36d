"""Gradients, optimisers and learning-rate schedules: Adam as in the paper, or Muon for the layers'
matrices and Adam for the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import distributed, nn

from training.loop.muon import Muon
from training.recipe import RecipeError, TrainRecipe


def average_gradients(parameters: Iterable[nn.Parameter], ranks: int) -> None:
    """Averages the gradients over all ranks, in one transfer: one for each parameter took more than
    twice as long."""
    if ranks > 1:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        together = nn.utils.parameters_to_vector(gradients)
        distributed.all_reduce(together)
        nn.utils.vector_to_parameters(together / ranks, gradients)


def build_optimizers(model: nn.Module, recipe: TrainRecipe) -> list[torch.optim.Optimizer]:
    """Returns the optimisers of `recipe`.

    "adam" is Adam(0.9, 0.98, 1e-9) for all parameters (the paper, section 5.3). "muon" is Muon for
    the layers' matrices and Adam for embeddings, norms and biases. With `query_key_rate` a second
    Adam updates the query and key matrices: Muon's updates have full size even for small gradients,
    so heads whose gradient is mostly noise drift until they attend to one position. Raises
    RecipeError for another optimizer.
    """
    parameters = dict(model.named_parameters())
    if recipe.optimizer == "adam":
        return [_adam(list(parameters.values()), recipe)]
    if recipe.optimizer != "muon":
        raise RecipeError(f"[train] optimizer must be adam or muon, not {recipe.optimizer}.")
    matrices = {
        n: p
        for n, p in parameters.items()
        if p.dim() == 2 and n.startswith(("encoder.", "decoder."))
    }
    rest = [p for name, p in parameters.items() if name not in matrices]
    if recipe.query_key_rate is None:
        return [_muon(list(matrices.values()), recipe), _adam(rest, recipe)]
    query_key = {
        name: p for name, p in matrices.items() if name.endswith((".query.weight", ".key.weight"))
    }
    others = [p for name, p in matrices.items() if name not in query_key]
    return [_muon(others, recipe), _adam(rest, recipe), _adam(list(query_key.values()), recipe)]


def _muon(matrices: list[nn.Parameter], recipe: TrainRecipe) -> Muon:
    return Muon(matrices, recipe.matrix_rate, weight_decay=recipe.weight_decay)


def _adam(parameters: list[nn.Parameter], recipe: TrainRecipe) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=recipe.rate, betas=(0.9, 0.98), eps=1e-9, fused=True)


def _peaks(recipe: TrainRecipe) -> list[float]:
    """Returns the peak rates in the order of `build_optimizers`."""
    if recipe.optimizer == "adam":
        return [recipe.rate]
    extra = [] if recipe.query_key_rate is None else [recipe.query_key_rate]
    return [recipe.matrix_rate, recipe.rate, *extra]


def noam(step: int, d_model: int, warmup: int) -> float:
    """Returns the learning rate at `step` >= 1 by the paper's equation 3: linear for `warmup`
    steps, then 1/sqrt(step)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def wsd(step: int, progress: float, warmup: int, decay: float) -> float:
    """Returns the factor on the peak rate in the warmup-stable-decay schedule.

    The factor rises over `warmup` steps, stays at 1, and falls as 1 - sqrt over the last `decay`
    share of `progress`.
    """
    warm = min(1.0, step / max(1, warmup))
    if progress <= 1.0 - decay:
        return warm
    decayed = min(1.0, (progress - (1.0 - decay)) / decay)
    return warm * (1.0 - math.sqrt(decayed))


def set_rates(
    optimizers: list[torch.optim.Optimizer],
    recipe: TrainRecipe,
    d_model: int,
    step: int,
    progress: float,
) -> float:
    """Sets the rates of all optimisers for `step` (from 1) at `progress` (0 to 1) of the budget.
    Returns Adam's rate.

    Raises RecipeError for an unknown schedule.
    """
    if recipe.schedule == "noam":
        factor = noam(step, d_model, recipe.warmup) / recipe.rate
    elif recipe.schedule == "wsd":
        factor = wsd(step, progress, recipe.warmup, recipe.decay)
    elif recipe.schedule == "linear":
        factor = min(1.0, step / max(1, recipe.warmup)) * (1.0 - progress)
    else:
        raise RecipeError(f"[train] schedule must be noam, wsd or linear, not {recipe.schedule}.")
    for optimizer, peak in zip(optimizers, _peaks(recipe), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = peak * factor
    return recipe.rate * factor
