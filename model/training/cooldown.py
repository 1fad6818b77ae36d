"""Cool-down: a training that branches from another one at a constant rate (the trunk) and lowers the rate to zero.

The branch is written to its own folder and can be packaged. The trunk is not changed and can be trained further.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from model.training.loop.checkpoint import checkpoints, copy_newest, read_progress
from model.training.recipe import Recipe, RecipeError

_BRANCH_FILE = "branch.json"
_CHECKPOINTS, _KEPT = 10, 3
"""Number of checkpoints written during the cool-down, and number of checkpoints kept for averaging."""


def copy_trunk(trunk: Path, folder: Path) -> None:
    """Copies the newest checkpoint, the log and the data of `trunk` to `folder`, unless the branch exists already.

    Raises RecipeError if the trunk has no checkpoint.
    """
    if not checkpoints(trunk):
        raise RecipeError(f"{trunk} has no checkpoint to branch from.")
    if (folder / _BRANCH_FILE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for file in trunk.iterdir():
        if file.suffix in {".json", ".npz", ".model", ".jsonl"}:
            shutil.copyfile(file, folder / file.name)
    copy_newest(trunk, folder)
    facts = {"trunk": trunk.name, "seconds": read_progress(folder).seconds}
    (folder / _BRANCH_FILE).write_text(json.dumps(facts) + "\n", encoding="utf-8")


def cooling(recipe: Recipe, folder: Path, minutes: float) -> Recipe:
    """Returns the recipe of the branch in `folder`: the rate falls to zero in `minutes` from the copied checkpoint."""
    began = float(json.loads((folder / _BRANCH_FILE).read_text(encoding="utf-8"))["seconds"]) / 60
    train = replace(
        recipe.train,
        schedule="wsd",
        minutes=began + minutes,
        decay=minutes / (began + minutes),
        keep=_KEPT,
        checkpoint_minutes=minutes / _CHECKPOINTS,
        validate_minutes=2 * minutes,
    )
    return replace(recipe, train=train)
