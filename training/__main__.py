"""Command line of training: `python -m training train RECIPE FOLDER`, then `package RECIPE FOLDER
WEIGHTS`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from training.recipe import Recipe, RecipeError, load_recipe


def main(arguments: list[str] | None = None) -> int:
    """Runs one subcommand. Returns the exit status: 0, or 2 for an error in the recipe, the data or
    the folder."""
    options = _parser().parse_args(arguments)
    try:
        recipe = _recipe_with_overrides(options)
        _run(options, recipe)
    except (RecipeError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _recipe_with_overrides(options: argparse.Namespace) -> Recipe:
    recipe = load_recipe(options.recipe, options.data)
    limits = {key: getattr(options, key, None) for key in ("minutes", "steps")}
    budget = {key: value for key, value in limits.items() if value is not None}
    return replace(recipe, train=replace(recipe.train, **budget))


def _run(options: argparse.Namespace, recipe: Recipe) -> None:
    # PyTorch loads slowly. Imported here, it does not delay error messages about the command line
    # and the recipe.
    import torch

    from training import commands
    from training.loop.hardware import keep_freed_memory

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    match options.command:
        case "prepare":
            commands.prepare(recipe, options.folder)
        case "train":
            keep_freed_memory()
            if not (0 < options.until <= 1 and options.batch_processes >= 0):
                raise RecipeError(
                    "--until is a share between 0 and 1, and --batch-processes at least 0."
                )
            limits = {"until": options.until, "processes": options.batch_processes}
            commands.train(recipe, options.folder, cooldown=options.cooldown, **limits)
        case "shortlist":
            print(commands.write_shortlist(recipe, options.folder, options.weights))
        case _:
            if (options.mix is None) != (options.share is None):
                raise RecipeError("--mix and --share must be given together.")
            mixture = None if options.mix is None else (options.mix, options.share)
            places = (options.recipe, options.folder, options.weights)
            commands.package(recipe, *places, last=options.last, mixture=mixture)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training",
        description="Train a translation model from sentence pairs. Under torchrun each process "
        "takes a share of the batches.",
    )
    parser.add_argument("--threads", type=int, help="number of CPU threads (default: all cores)")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of the recipe's files (default: current folder)",
    )
    subparsers = parser.add_subparsers(dest="command", required=True)
    commands = {}
    for name, text in (
        (
            "prepare",
            "train the vocabulary and tokenise the pairs into FOLDER; existing files are kept",
        ),
        ("train", "prepare, then train or resume in FOLDER; write log.jsonl and checkpoints there"),
        ("package", "average the last checkpoints of FOLDER and write the model folder WEIGHTS"),
        (
            "shortlist",
            "write the lexical shortlist of the model folder WEIGHTS from the pairs in FOLDER",
        ),
    ):
        command = commands[name] = subparsers.add_parser(name, help=text, description=text)
        command.add_argument("recipe", type=Path, metavar="RECIPE", help="recipe file (.toml)")
        command.add_argument(
            "folder", type=Path, metavar="FOLDER", help="working folder of this training"
        )
    train, package = commands["train"], commands["package"]
    commands["shortlist"].add_argument(
        "weights", type=Path, metavar="WEIGHTS", help="model folder that gets the list"
    )
    train.add_argument("--minutes", type=float, help="time budget; replaces the recipe's")
    train.add_argument("--steps", type=int, help="step budget; replaces the recipe's")
    train.add_argument(
        "--cooldown",
        type=float,
        metavar="MINUTES",
        help="minutes in which the rate falls to zero, from now on",
    )
    train.add_argument(
        "--until",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="end at this share of the budget, where another recipe resumes",
    )
    train.add_argument(
        "--batch-processes",
        type=int,
        default=0,
        metavar="N",
        help="processes that make batches (default: a thread)",
    )
    package.add_argument("weights", type=Path, metavar="WEIGHTS", help="model folder to write")
    package.add_argument(
        "--last", type=int, default=5, help="number of checkpoints to average (default: 5)"
    )
    package.add_argument(
        "--mix", type=Path, metavar="MODEL", help="model folder whose weights enter the average"
    )
    package.add_argument(
        "--share", type=float, help="share of MODEL in the weights, between 0 and 1"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
