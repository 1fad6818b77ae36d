"""Cool-down: the rest of a training at a constant rate, in which the rate falls to zero.

A copy of the training's folder is cooled down, so that the training itself (the trunk) can go on.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from training.loop.checkpoint import checkpoints, read_progress
from training.recipe import Recipe, RecipeError

_FILE = "branch.json"
_CHECKPOINTS, _KEPT = 10, 3
"""Number of checkpoints written during the cool-down, and number of checkpoints kept for
averaging."""


def cooling(recipe: Recipe, folder: Path, minutes: float) -> Recipe:
    """Returns the recipe of the cool-down in `folder`: the rate falls to zero in `minutes` from the
    checkpoint that it had at the first call. Raises RecipeError if it has none."""
    if not checkpoints(folder):
        raise RecipeError(
            f"{folder} has no checkpoint to cool down; copy the folder of a training there."
        )
    if not (folder / _FILE).exists():
        (folder / _FILE).write_text(
            json.dumps({"seconds": read_progress(folder).seconds}) + "\n", encoding="utf-8"
        )
    began = float(json.loads((folder / _FILE).read_text(encoding="utf-8"))["seconds"]) / 60
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
