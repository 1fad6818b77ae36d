"""A cool-down continues from a copy of the trunk's checkpoint, and its rate falls to zero; the trunk does not change."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from model.training.cooldown import cooling, copy_trunk
from model.training.loop import checkpoint
from model.training.loop.optimizers import set_rates
from model.training.recipe import Recipe, RecipeError, TrainRecipe
from tests.support.models.tiny_training import made_recipe

_RECIPE = dataclasses.replace(
    made_recipe(), train=TrainRecipe(schedule="wsd", rate=0.001, warmup=10, decay=0.0, checkpoint_minutes=10)
)


def _trunk(folder: Path, seconds: float = 3600.0) -> Path:
    folder.mkdir()
    model = nn.Linear(2, 2)
    progress = checkpoint.Progress(step=500, tokens=7, seconds=seconds)
    checkpoint.save(folder, model, [torch.optim.Adam(model.parameters())], progress, 3)
    for name in ("tokenizer.model", "pairs.npz", "log.jsonl"):
        (folder / name).write_text("{}\n", encoding="utf-8")
    return folder


def _branch(trunk: Path, folder: Path) -> Recipe:
    copy_trunk(trunk, folder)
    return cooling(_RECIPE, folder, 20)


def test_the_rate_falls_from_the_trunks_rate_to_zero(tmp_path: Path) -> None:
    trunk = _trunk(tmp_path / "trunk")
    before = sorted((file.name, file.read_bytes()) for file in trunk.iterdir())
    recipe = _branch(trunk, tmp_path / "cooled")
    assert recipe.train.minutes == pytest.approx(80)
    optimizers = [torch.optim.Adam([nn.Parameter(torch.zeros(1))])]
    rates = [
        set_rates(optimizers, recipe.train, 512, 501, minutes / recipe.train.minutes)
        for minutes in (30, 60, 65, 70, 79, 80)
    ]
    assert rates[:2] == pytest.approx([0.001, 0.001])
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert len(set(rates)) == len(rates) - 1
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)
    assert sorted((file.name, file.read_bytes()) for file in trunk.iterdir()) == before
    assert {file.name for file in (tmp_path / "cooled").iterdir()} == {name for name, _ in before} | {"branch.json"}
    assert checkpoint.read_progress(tmp_path / "cooled").step == 500


def test_a_stopped_branch_resumes_with_its_first_recipe(tmp_path: Path) -> None:
    trunk = _trunk(tmp_path / "trunk")
    first = _branch(trunk, tmp_path / "cooled")
    (tmp_path / "cooled" / "log.jsonl").write_text(json.dumps({"step": 501}) + "\n", encoding="utf-8")
    later = _trunk(tmp_path / "later", 9000.0)
    assert _branch(later, tmp_path / "cooled") == first
    assert "501" in (tmp_path / "cooled" / "log.jsonl").read_text(encoding="utf-8")


def test_only_the_schedule_differs(tmp_path: Path) -> None:
    recipe = _branch(_trunk(tmp_path / "trunk"), tmp_path / "cooled")
    assert dataclasses.replace(recipe, train=_RECIPE.train) == _RECIPE
    assert recipe.train.checkpoint_minutes == pytest.approx(2)


def test_the_error_names_a_trunk_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="nothing"):
        copy_trunk(tmp_path / "nothing", tmp_path / "cooled")
