"""Finding model folders on disk and reading what the API process needs of them (everything but the weights)."""

from __future__ import annotations

import logging
from pathlib import Path

from model.folder import FolderError

from server.catalog import ServedModel
from server.errors import SettingsError

log = logging.getLogger(__name__)


def find_models(weights: Path) -> tuple[list[ServedModel], dict[str, str]]:
    """The models under a folder and, by folder name, why others cannot be used.

    Raises SettingsError where there is not a single model that can be.
    """
    if not weights.is_dir():
        raise SettingsError(f"--weights (ATTENTIVE_WEIGHTS): there is no folder {str(weights)!r}.")
    folders = [weights] if (weights / "config.json").is_file() else sorted(weights.glob("*/config.json"))
    models: dict[str, ServedModel] = {}
    errors: dict[str, str] = {}
    for path in folders:
        folder = path if path.is_dir() else path.parent
        try:
            model = read_model(folder)
        except (FolderError, ValueError, OSError) as error:
            errors[folder.name] = str(error)
            log.error("model folder %s cannot be used: %s", folder.name, error)
            continue
        if model.name in models:
            errors[folder.name] = f"Another folder already serves a model with the name {model.name!r}."
            continue
        models[model.name] = model
    if not models:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in errors.items())
        raise SettingsError(
            f"--weights (ATTENTIVE_WEIGHTS): no usable model in {str(weights)!r}{': ' + reasons if reasons else ''}."
        )
    return list(models.values()), errors
