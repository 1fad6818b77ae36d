"""The training commands: prepare the data, train, write a shortlist, and package a model folder."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import safetensors.torch
import sentencepiece
import torch
from torch import Tensor, distributed

from model.checkpoint import load_model, save_model
from model.model_folder import ModelFolder, TokenizerFiles, read_folder
from model.symbols import ADDRESS_LANGUAGES
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.data.augment import build_augmenter
from training.data.batches import Batches, BatchProcesses
from training.data.corpus import special_ids, train_vocabulary
from training.data.shards import Shard, shard_file, tokenise
from training.loop.checkpoint import checkpoints, read_progress, start_from
from training.loop.hardware import rank_and_world_size, row_multiple, training_device
from training.loop.trainer import Trainer
from training.loop.validation import Validator
from training.recipe import Recipe, RecipeError
from training.shortlist import build_shortlist

_WAIT = timedelta(hours=12)
"""How long ranks wait for each other: rank 0 prepares the data and validates alone."""
_BRANCH_FILE = "branch.json"
_CHECKPOINTS, _KEPT = 10, 3
"""Checkpoints written during the cool-down, and those kept for averaging."""
MANTISSA_BITS = 4
"""Bits of the mantissa that `rounded` keeps. The loss of the default model grows by 0.0002."""
_FILE_BYTES = 40_000_000
"""Largest weight file, so that Git hosts accept it."""


def prepare(recipe: Recipe, folder: Path) -> None:
    """Writes vocabulary, training shard and development shard to `folder`, except files that
    exist."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = folder / "tokenizer.model"
    if not tokenizer.exists() and recipe.vocabulary.start is not None:
        shutil.copyfile(Path(recipe.vocabulary.start) / "tokenizer.model", tokenizer)
    if not tokenizer.exists():
        print(f"Training a vocabulary of {recipe.vocabulary.size} pieces.")
        train_vocabulary(recipe, folder)
    if not shard_file(folder, "pairs").exists():
        shard = tokenise(recipe, tokenizer)
        print(
            f"{len(shard.group)} pairs, {len(shard.english)} English and {len(shard.other)} other "
            "tokens."
        )
        shard.save(folder, "pairs")
    if recipe.data.development and not shard_file(folder, "development").exists():
        data = dataclasses.replace(
            recipe.data, files=recipe.data.development, weights={}, default_weight=1.0
        )
        tokenise(dataclasses.replace(recipe, data=data), tokenizer).save(folder, "development")


def train(
    recipe: Recipe,
    folder: Path,
    *,
    cooldown: float | None = None,
    until: float = 1.0,
    processes: int = 0,
) -> None:
    """Prepares the data, then trains or resumes until the share `until` of the recipe's budget is
    used up. In a `cooldown` the rate falls to zero in that number of minutes. `processes` make a
    rank's batches. Under torchrun rank 0 writes the data for all ranks. In the main thread SIGTERM
    ends the training with a checkpoint. Raises RecipeError, OSError or ValueError if recipe, data
    and folder do not fit together."""
    rank, count = rank_and_world_size()
    # chosen before NCCL starts, which otherwise takes the first GPU in every rank
    device = training_device()
    gpu = device if device.type == "cuda" else None
    if count > 1:
        distributed.init_process_group("nccl" if gpu else "gloo", timeout=_WAIT, device_id=gpu)
    if rank == 0:
        prepare(recipe, folder)
        if cooldown is not None:
            cooling(recipe, folder, cooldown)  # writes its beginning for all ranks
    if count > 1:
        distributed.barrier()
    trainer = build_trainer(
        recipe if cooldown is None else cooling(recipe, folder, cooldown), folder, processes
    )
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: trainer.stop())
    trainer.run(until)
    if count > 1:
        distributed.barrier()
        distributed.destroy_process_group()


def cooling(recipe: Recipe, folder: Path, minutes: float) -> Recipe:
    """Returns the recipe of the cool-down in `folder`, a copy of a training's folder, so that the
    training itself can continue: the rate falls to zero in `minutes` from the checkpoint of the
    first call. Raises RecipeError without a checkpoint."""
    if not checkpoints(folder):
        raise RecipeError(
            f"{folder} has no checkpoint to cool down; copy the folder of a training there."
        )
    branch = folder / _BRANCH_FILE
    if not branch.exists():
        progress = {"seconds": read_progress(folder).seconds}
        branch.write_text(json.dumps(progress) + "\n", encoding="utf-8")
    began = float(json.loads(branch.read_text(encoding="utf-8"))["seconds"]) / 60
    train = dataclasses.replace(
        recipe.train,
        schedule="wsd",
        minutes=began + minutes,
        decay=minutes / (began + minutes),
        keep=_KEPT,
        checkpoint_minutes=minutes / _CHECKPOINTS,
        validate_minutes=2 * minutes,
    )
    return dataclasses.replace(recipe, train=train)


def write_shortlist(recipe: Recipe, folder: Path, weights: Path) -> str:
    """Writes the shortlist of the model folder `weights`, which is used by default. Returns a line
    about it. Raises RecipeError if the model has another vocabulary than the training in
    `folder`."""
    tokenizer = weights / "tokenizer.model"
    if (
        not tokenizer.is_file()
        or tokenizer.read_bytes() != (folder / "tokenizer.model").read_bytes()
    ):
        raise RecipeError(f"{weights} does not have the vocabulary of {folder}.")
    shortlist = build_shortlist(recipe, folder)
    shortlist.write(weights)
    common = ", ".join(str(len(tokens)) for tokens in shortlist.common())
    return f"{len(shortlist.targets)} targets; for every source of a language: {common}."


def build_trainer(recipe: Recipe, folder: Path, processes: int = 0) -> Trainer:
    """Returns the trainer of `recipe` on the shard in `folder`. `processes` make its batches, 0 for
    a thread. Raises RecipeError, OSError or ValueError if recipe and folder do not fit together."""
    rank, ranks = rank_and_world_size()
    torch.manual_seed(recipe.train.seed)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    model = Transformer(recipe.model_config(processor))
    if recipe.train.start is not None and not checkpoints(folder):
        start_from(Path(recipe.train.start), model, folder / "tokenizer.model")
    ids = special_ids(processor, recipe.languages)
    shard = Shard.load(folder, "pairs")
    augmenter = build_augmenter(recipe, shard, processor)
    batch_tokens, multiple = recipe.train.batch_tokens // ranks, row_multiple()
    batches = Batches(
        shard, recipe, ids, augmenter, batch_tokens, rank=rank, ranks=ranks, multiple=multiple
    )
    tags = {language: f">>{language}<<" for language in recipe.languages}
    tokenizer = Tokenizer(folder / "tokenizer.model", tags=tags, eos_id=ids.end)
    validator = Validator(recipe, folder, model, tokenizer, ids)
    made = BatchProcesses(batches, processes) if processes else batches
    return Trainer(recipe.train, folder, model, made, validator.scores)


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
    rounded, config, tokenizer, recipe and a summary. With `mixture`, (model folder, share between 0
    and 1), a finished model's weights have this share. Raises RecipeError if `last` is not positive
    or `folder` has no checkpoint, and RecipeError or FolderError if the mixture cannot be made."""
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
