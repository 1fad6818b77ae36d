"""A cool-down continues from the folder's checkpoint, and its rate falls to zero."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.support.models.tiny_training import made_recipe
from training.cooldown import cooling
from training.loop import checkpoint
from training.loop.optimizers import set_rates
from training.recipe import RecipeError, TrainRecipe

_RECIPE = dataclasses.replace(
    made_recipe(), train=TrainRecipe(schedule="wsd", rate=0.001, warmup=10, decay=0.0, checkpoint_minutes=10)
)


def _folder(folder: Path, seconds: float) -> Path:
    folder.mkdir(exist_ok=True)
    model = nn.Linear(2, 2)
    progress = checkpoint.Progress(step=500, tokens=7, seconds=seconds)
    checkpoint.save(folder, model, [torch.optim.Adam(model.parameters())], progress, 3)
    return folder


def test_the_rate_falls_to_zero_and_only_the_schedule_differs(tmp_path: Path) -> None:
    recipe = cooling(_RECIPE, _folder(tmp_path / "cooled", 3600.0), 20)
    assert dataclasses.replace(recipe, train=_RECIPE.train) == _RECIPE
    assert (recipe.train.minutes, recipe.train.checkpoint_minutes) == pytest.approx((80, 2))
    optimizers = [torch.optim.Adam([nn.Parameter(torch.zeros(1))])]
    rates = [
        set_rates(optimizers, recipe.train, 512, 501, minutes / recipe.train.minutes)
        for minutes in (30, 60, 65, 70, 79, 80)
    ]
    assert rates[:2] == pytest.approx([0.001, 0.001])
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert len(set(rates)) == len(rates) - 1
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)


def test_a_stopped_cool_down_resumes_with_its_first_recipe(tmp_path: Path) -> None:
    first = cooling(_RECIPE, _folder(tmp_path / "cooled", 3600.0), 20)
    assert cooling(_RECIPE, _folder(tmp_path / "cooled", 3900.0), 20) == first


def test_the_error_names_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="nothing"):
        cooling(_RECIPE, tmp_path / "nothing", 20)
