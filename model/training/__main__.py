"""The command line of training: `python -m model.training train RECIPE FOLDER`, then `package RECIPE FOLDER WEIGHTS`."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from model.training.recipe import Recipe, RecipeError, load_recipe

# Training allocates and frees the same large blocks every step. The C library would give each back to the system and
# fault its pages in again, which was measured to take most of the time on some machines: keep them instead.
_ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "32000000000", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "30000",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.command == "train" and arguments is None:
        _keep_memory()
    try:
        recipe = _recipe(options)
        _run(options, recipe)
    except (RecipeError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _recipe(options: argparse.Namespace) -> Recipe:
    recipe = load_recipe(options.recipe, options.data)
    if getattr(options, "minutes", None) is not None:
        recipe = replace(recipe, train=replace(recipe.train, minutes=options.minutes))
    if getattr(options, "steps", None) is not None:
        recipe = replace(recipe, train=replace(recipe.train, steps=options.steps))
    return recipe


def _run(options: argparse.Namespace, recipe: Recipe) -> None:
    # Imported here: a mistake on the command line or in the recipe is answered at once.
    import torch

    from model.training import commands as jobs
    from model.training.loop import checkpoint as state
    from model.training.loop.cooldown import branch

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    match options.command:
        case "prepare":
            jobs.prepare(recipe, options.folder)
        case "plan":
            print(jobs.plan(recipe, options.folder, options.speed))
        case "train":
            if (options.trunk is None) != (options.cooldown is None):
                raise RecipeError("--trunk and --cooldown go together.")
            if options.trunk is not None:
                recipe = branch(recipe, options.trunk, options.folder, options.cooldown)
            jobs.train(recipe, options.folder, 1e12 * options.peak if options.peak else None)
        case "export":
            files = state.export(options.folder, options.parts, last=options.last, part_bytes=int(1e6 * options.part_mb))
            print(f"{len(files)} parts, {sum(file.stat().st_size for file in files) / 1e6:.0f} MB, in {options.parts}")
        case "restore":
            print(f"{options.folder} is at step {state.restore(options.parts, options.folder)}.")
        case _:
            jobs.package(recipe, options.recipe, options.folder, options.weights, last=options.last)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m model.training",
        description="Train a translation model from sentence pairs. Under torchrun each process takes a share of the batches.",
    )
    parser.add_argument("--threads", type=int, help="CPU threads (default: all)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the recipe's files lie (default: here)")
    commands = parser.add_subparsers(dest="command", required=True)
    found = {}
    for name, text in (
        ("prepare", "train the vocabulary and tokenise the pairs into FOLDER; what is there already is kept"),
        ("plan", "prepare, then print how many target tokens an epoch has per domain and direction"),
        ("train", "prepare, then train or resume in FOLDER; log.jsonl and checkpoints are written there"),
        ("export", "write FOLDER's newest checkpoint to PARTS, in half precision and files small enough to be carried"),
        ("restore", "join what export wrote to PARTS into a checkpoint of FOLDER"),
        ("package", "average the last checkpoints of FOLDER and write the model folder WEIGHTS"),
    ):
        found[name] = commands.add_parser(name, help=text, description=text)
        found[name].add_argument("recipe", type=Path, metavar="RECIPE", help="recipe.toml")
        found[name].add_argument("folder", type=Path, metavar="FOLDER", help="working folder of this training")
    found["plan"].add_argument("--speed", type=float, help="target tokens a second: tells how many epochs the minutes make")
    found["train"].add_argument("--minutes", type=float, help="budget instead of the recipe's")
    found["train"].add_argument("--steps", type=int, help="budget instead of the recipe's")
    found["train"].add_argument("--trunk", type=Path, metavar="TRUNK", help="training to branch a cool-down from, into FOLDER")
    found["train"].add_argument("--cooldown", type=float, metavar="MINUTES", help="in which the branch's rate falls to zero")
    found["train"].add_argument("--peak", type=float, metavar="TFLOPS", help="the device's best rate, for the log's share")
    for name in ("export", "restore"):
        found[name].add_argument("parts", type=Path, metavar="PARTS", help="folder of the parts")
    found["export"].add_argument("--last", type=int, help="average so many checkpoints, to package; default: to resume")
    found["export"].add_argument("--part-mb", type=float, default=16, help="largest part in MB (default 16)")
    found["package"].add_argument("weights", type=Path, metavar="WEIGHTS", help="model folder to write")
    found["package"].add_argument("--last", type=int, default=5, help="checkpoints to average (default 5)")
    return parser


def _keep_memory() -> None:
    """Start this process again with the allocator's settings, which it reads only once."""
    if sys.platform == "linux" and any(name not in os.environ for name in _ALLOCATOR):
        os.execve(sys.executable, [sys.executable, "-m", "model.training", *sys.argv[1:]], {**_ALLOCATOR, **os.environ})  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
