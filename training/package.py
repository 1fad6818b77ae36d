"""Packaging of a training: the average of its last checkpoints as a model folder, with a
summary."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import safetensors.torch
import sentencepiece
import torch
from torch import Tensor

from model.checkpoint import load_model, save_model
from model.model_folder import ModelFolder, TokenizerFiles, read_folder
from model.symbols import ADDRESS_LANGUAGES
from model.transformer import Transformer
from training.data.shards import Shard
from training.loop.checkpoint import checkpoints
from training.recipe import Recipe, RecipeError

MANTISSA_BITS = 4
"""Bits of the mantissa that `rounded` keeps. The loss of the default model grows by 0.0002."""

_FILE_BYTES = 40_000_000
"""Largest weight file, so that Git hosts accept it."""


def package(
    recipe: Recipe,
    recipe_file: Path,
    folder: Path,
    weights: Path,
    *,
    last: int = 5,
    mixture: tuple[Path, float] | None = None,
) -> None:
    """Writes the model folder `weights`: the average of the `last` checkpoints in float16 and
    rounded, config, tokenizer, recipe and a summary of the training. With `mixture`, (model folder,
    share between 0 and 1), a finished model's weights have this share of the packaged ones.

    Raises RecipeError if `last` is not positive or `folder` has no checkpoint, and RecipeError or
    FolderError if the mixture cannot be made.
    """
    if last < 1:
        raise RecipeError("--last must be at least 1.")
    averaged = average(checkpoints(folder)[-last:])
    if mixture is not None:
        averaged = mix(averaged, load_model(read_folder(mixture[0])).state_dict(), mixture[1])
    averaged = rounded(averaged)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    config = recipe.model_config(processor)
    transformer = Transformer(config)
    transformer.load_state_dict(averaged)
    served = ModelFolder(
        path=weights,
        name=recipe.name,
        model=config,
        pairs=tuple(recipe.directions),
        tags={language: f">>{language}<<" for language in recipe.languages},
        license="CC-BY-4.0",
        origin="Trained with training; see README.md and recipe.toml.",
        tokenizer=TokenizerFiles(),
        formality=_formality(recipe),
        generation=recipe.generation,
        segment_length=recipe.segment_length,
        preference=recipe.preference,
    )
    # float16 halves the size of the folder.
    save_model(served, transformer.eval(), dtype=torch.float16, file_bytes=_FILE_BYTES)
    shutil.copyfile(folder / "tokenizer.model", weights / "tokenizer.model")
    shutil.copyfile(recipe_file, weights / "recipe.toml")
    lines = [
        json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    summary = _summary(lines, folder)
    if mixture is not None:
        summary["mixture"] = {"model": mixture[0].name, "share": mixture[1]}
    (weights / "training.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def average(files: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of several checkpoints' weights in float32 (the paper, section 6.1). Raises
    RecipeError if `files` is empty."""
    if not files:
        raise RecipeError("There is no checkpoint to average.")
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in safetensors.torch.load_file(file).items():
            total[name] = total.get(name, 0.0) + tensor.float() / len(files)
    return total


def mix(weights: dict[str, Tensor], other: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Returns (1 - share) * weights + share * other: often better than both (Wortsman et al. 2022,
    model soups). Raises RecipeError for a share outside 0 to 1 and for models of another shape."""
    if not 0.0 < share < 1.0:
        raise RecipeError(f"The share of a mixture must be between 0 and 1, not {share:g}.")
    if {name: tensor.shape for name, tensor in weights.items()} != {
        name: tensor.shape for name, tensor in other.items()
    }:
        raise RecipeError("The models of a mixture must have the same shape and vocabulary.")
    return {
        name: torch.lerp(tensor, other[name].float(), share) for name, tensor in weights.items()
    }


def rounded(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rounds every number of a matrix to MANTISSA_BITS bits, so that a compressed file is smaller
    by a third. The error is about that of int8."""
    scale = 2.0 ** (MANTISSA_BITS + 1)

    def one(tensor: Tensor) -> Tensor:
        # mantissas from 0.5 to 1, whose first bit is not stored
        mantissa, exponent = torch.frexp(tensor)
        return torch.ldexp((mantissa * scale).round() / scale, exponent)

    return {
        name: one(tensor.float()) if tensor.dim() > 1 else tensor
        for name, tensor in weights.items()
    }


def _formality(recipe: Recipe) -> tuple[str, ...]:
    """Returns the languages for which a recipe trains with the symbols of the form of address."""
    if not recipe.data.formality and not recipe.data.augment.get("formality"):
        return ()
    targets = {direction[1] for direction in recipe.directions}
    return tuple([language for language in ADDRESS_LANGUAGES if language in targets])


def _summary(lines: list[dict[str, float]], folder: Path) -> dict[str, object]:
    shard = Shard.load(folder, "pairs")
    counts = torch.bincount(
        torch.from_numpy(shard.group.astype("int64")), minlength=len(shard.groups)
    ).tolist()
    speeds = sorted(line["tokens_per_second"] for line in lines if "tokens_per_second" in line)
    return {
        "steps": lines[-1]["step"],
        "epochs": lines[-1]["epoch"],
        "target_tokens": lines[-1]["tokens"],
        "hours": round(lines[-1]["seconds"] / 3600, 2),
        "median_target_tokens_per_second": speeds[len(speeds) // 2] if speeds else None,
        "development_loss": [
            {"tokens": line["tokens"], "loss": round(line["development_loss"], 4)}
            for line in lines
            if "development_loss" in line
        ],
        "pairs": dict(zip(shard.groups, counts, strict=True)),
    }
