"""Cool-down: a branch of a training at a constant rate (the trunk) whose rate falls to zero in so many minutes.

The trunk stays as it is and goes on at its rate; the branch has a folder of its own and is what gets packaged.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from model.training.loop.checkpoint import checkpoints, copy_newest, read_progress
from model.training.recipe import Recipe, RecipeError

_BRANCH = "branch.json"
_CHECKPOINTS, _KEPT = 10, 3
"""A checkpoint every tenth of the time; the last three are averaged."""


def branch(recipe: Recipe, trunk: Path, folder: Path, minutes: float) -> Recipe:
    """Copy the newest checkpoint, the log and the data of `trunk` to `folder`, unless the branch is there already, and
    return the recipe that cools it down. Raises RecipeError where the trunk has no checkpoint."""
    if not checkpoints(trunk):
        raise RecipeError(f"{trunk} has no checkpoint to branch from.")
    if not (folder / _BRANCH).exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file in trunk.iterdir():
            if file.suffix in {".json", ".npz", ".model", ".jsonl"}:
                shutil.copyfile(file, folder / file.name)
        copy_newest(trunk, folder)
        facts = {"trunk": trunk.name, "seconds": read_progress(folder).seconds}
        (folder / _BRANCH).write_text(json.dumps(facts) + "\n", encoding="utf-8")
    began = float(json.loads((folder / _BRANCH).read_text(encoding="utf-8"))["seconds"]) / 60
    train = replace(
        recipe.train, schedule="wsd", minutes=began + minutes, decay=minutes / (began + minutes), keep=_KEPT,
        checkpoint_minutes=minutes / _CHECKPOINTS, validate_minutes=2 * minutes,
    )  # fmt: skip
    return replace(recipe, train=train)
