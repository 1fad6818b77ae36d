"""The training commands: prepare data, plan, train, and package a model folder."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import torch
from torch import distributed

from model.checkpoint import load_model, save_model
from model.model_folder import ModelFolder, TokenizerFiles, read_folder
from model.symbols import SYMBOLS
from model.training.data.augment import needs_names, shared_names
from model.training.data.corpus import train_vocabulary
from model.training.data.formality import LANGUAGES
from model.training.data.shards import Shard, shard_file, tokenise
from model.training.data.vocabulary import extend_vocabulary
from model.training.loop.checkpoint import average, checkpoints, mix, rounded
from model.training.loop.curve import draw_curve
from model.training.loop.hardware import rank_and_world_size
from model.training.loop.trainer import NAMES_FILE, Trainer, model_config
from model.training.plan import describe
from model.training.recipe import Recipe, RecipeError
from model.training.shortlist import ListSizes, build_shortlist
from model.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Mixture:
    """A finished model whose weights have the given share, between 0 and 1, of the packaged ones."""

    model: Path
    share: float


def prepare(recipe: Recipe, folder: Path) -> None:
    """Writes vocabulary, training shard, names and development shard to `folder`. Keeps files that exist."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = folder / "tokenizer.model"
    if not tokenizer.exists() and recipe.vocabulary.start is not None:
        extend_vocabulary(Path(recipe.vocabulary.start) / "tokenizer.model", tokenizer, SYMBOLS)
    if not tokenizer.exists():
        print(f"Training a vocabulary of {recipe.vocabulary.size} pieces.")
        train_vocabulary(recipe, folder)
    if not shard_file(folder, "pairs").exists():
        shard = tokenise(recipe, tokenizer)
        print(f"{len(shard.group)} pairs, {len(shard.english)} English and {len(shard.other)} other tokens.")
        shard.save(folder, "pairs")
    if needs_names(recipe) and not (folder / NAMES_FILE).exists():
        processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
        names = shared_names(Shard.load(folder, "pairs"), processor)
        (folder / NAMES_FILE).write_text(json.dumps(names, ensure_ascii=False), encoding="utf-8")
    if recipe.data.development and not shard_file(folder, "development").exists():
        data = dataclasses.replace(recipe.data, files=recipe.data.development, weights={}, default_weight=1.0)
        tokenise(dataclasses.replace(recipe, data=data), tokenizer).save(folder, "development")


def plan(recipe: Recipe, folder: Path, speed: float | None = None) -> str:
    """Prepares the data and returns a table of one epoch; see `plan.describe`."""
    prepare(recipe, folder)
    return describe(Shard.load(folder, "pairs"), recipe, speed)


def train(recipe: Recipe, folder: Path, peak: float | None = None) -> None:
    """Prepares the data, then trains or resumes until the recipe's budget is used up.

    Under torchrun rank 0 prepares the data for all ranks. SIGTERM ends the training after the current step with a
    checkpoint. `peak` is the peak rate of the device in FLOP/s, for the log.
    """
    rank, count = rank_and_world_size()
    if count > 1:
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if rank == 0:
        prepare(recipe, folder)
    if count > 1:
        distributed.barrier()
    trainer = Trainer(recipe, folder, peak)
    signal.signal(signal.SIGTERM, lambda *_: trainer.stop())
    trainer.run()
    if count > 1:
        distributed.barrier()
        distributed.destroy_process_group()


def package(
    recipe: Recipe, recipe_file: Path, folder: Path, weights: Path, *, last: int = 5, mixture: Mixture | None = None
) -> None:
    """Writes the model folder `weights`: the average of the `last` checkpoints in float16 and rounded, config, tokenizer,
    recipe, learning curve and a summary of the training. With `mixture`, another model's weights enter the average.

    Raises RecipeError if `last` is not positive or `folder` has no checkpoint, and RecipeError or FolderError if the
    mixture cannot be made.
    """
    if last < 1:
        raise RecipeError("--last must be at least 1.")
    averaged = average(checkpoints(folder)[-last:])
    if mixture is not None:
        averaged = mix(averaged, load_model(read_folder(mixture.model)).state_dict(), mixture.share)
    averaged = rounded(averaged)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    config = model_config(recipe, processor)
    transformer = Transformer(config)
    transformer.load_state_dict(averaged)
    served = ModelFolder(
        path=weights,
        name=recipe.name,
        model=config,
        pairs=tuple(recipe.directions),
        tags={language: f">>{language}<<" for language in recipe.languages},
        license="CC-BY-4.0",
        origin="Trained with model.training; see README.md and recipe.toml.",
        tokenizer=TokenizerFiles(),
        formality=_formality(recipe),
        generation=recipe.generation,
        segment_length=recipe.segment_length,
    )
    # float16 halves the size of the folder.
    save_model(served, transformer.eval(), dtype=torch.float16)
    shutil.copyfile(folder / "tokenizer.model", weights / "tokenizer.model")
    shutil.copyfile(recipe_file, weights / "recipe.toml")
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    draw_curve(lines, weights / "curve.svg")
    summary = _summary(lines, folder)
    if mixture is not None:
        summary["mixture"] = {"model": mixture.model.name, "share": mixture.share}
    (weights / "training.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def write_shortlist(recipe: Recipe, folder: Path, weights: Path, sizes: ListSizes) -> str:
    """Writes the shortlist of the model folder `weights`, which is used by default. Returns a line about it.

    Raises RecipeError if the model has another vocabulary than the training in `folder`.
    """
    tokenizer = weights / "tokenizer.model"
    if not tokenizer.is_file() or tokenizer.read_bytes() != (folder / "tokenizer.model").read_bytes():
        raise RecipeError(f"{weights} does not have the vocabulary of {folder}.")
    found = build_shortlist(recipe, folder, sizes)
    found.write(weights)
    common = ", ".join(str(len(tokens)) for tokens in found.common())
    return f"{len(found.targets)} targets; for every source of a language: {common}."


def _formality(recipe: Recipe) -> tuple[str, ...]:
    """Returns the languages for which a recipe trains with the symbols of the form of address."""
    if not recipe.data.formality and not recipe.data.augment.get("formality"):
        return ()
    targets = {direction[1] for direction in recipe.directions}
    return tuple([language for language in LANGUAGES if language in targets])


def _summary(lines: list[dict[str, float]], folder: Path) -> dict[str, object]:
    """Returns steps, tokens, time and development losses of the training, for the model card."""
    shard = Shard.load(folder, "pairs")
    counts = torch.bincount(torch.from_numpy(shard.group.astype("int64")), minlength=len(shard.groups)).tolist()
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
