"""Initial weights from a finished model of the same shape and vocabulary."""

from __future__ import annotations

from pathlib import Path

from model.checkpoint import load_model
from model.model_folder import FolderError, read_folder
from model.training.recipe import RecipeError
from model.transformer import Transformer


def start_from(folder: Path, model: Transformer, tokenizer: Path) -> None:
    """Copies the weights of the model in `folder` to `model`, which has the vocabulary `tokenizer`.

    Raises RecipeError if `folder` is no model folder, or has another vocabulary or shape.
    """
    try:
        served = read_folder(folder)
        if (served.path / served.tokenizer.source).read_bytes() != tokenizer.read_bytes():
            raise RecipeError(f"[train] start: {folder.name} has another vocabulary; set [vocabulary] start to it too.")
        weights = load_model(served).state_dict()
    except (FolderError, OSError) as error:
        raise RecipeError(f"[train] start: {error}") from None
    for name, tensor in model.state_dict().items():
        if name not in weights or weights[name].shape != tensor.shape:
            raise RecipeError(f"[train] start: {name} has another shape in {folder.name} than in this recipe.")
    model.load_state_dict(weights)
