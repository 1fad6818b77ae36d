"""The command line of training: `python -m model.training train RECIPE FOLDER`, then `package RECIPE FOLDER WEIGHTS`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from model.training.recipe import RecipeError, load_recipe

# Training allocates and frees the same large blocks every step. The C library would give each back to the system and
# fault its pages in again, which was measured to take most of the time on some machines: keep them instead.
_ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "32000000000", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "30000",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        recipe = load_recipe(options.recipe, options.data)
    except (RecipeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.command == "train" and arguments is None:
        _keep_memory()
    import torch

    from model.training import jobs

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    try:
        if options.command == "prepare":
            jobs.prepare(recipe, options.folder)
        elif options.command == "train":
            jobs.train(recipe, options.folder)
        else:
            jobs.package(recipe, options.recipe, options.folder, options.weights, last=options.last)
    except (RecipeError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m model.training",
        description="Train a translation model from sentence pairs. Under torchrun each process takes a share of the batches.",
    )
    parser.add_argument("--threads", type=int, help="CPU threads (default: all)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the recipe's files lie (default: here)")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("prepare", "train the vocabulary and tokenise the pairs into FOLDER; what is there already is kept"),
        ("train", "prepare, then train or resume in FOLDER; log.jsonl and checkpoints are written there"),
        ("package", "average the last checkpoints of FOLDER and write the model folder WEIGHTS"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("recipe", type=Path, metavar="RECIPE", help="recipe.toml")
        command.add_argument("folder", type=Path, metavar="FOLDER", help="working folder of this training")
        if name == "package":
            command.add_argument("weights", type=Path, metavar="WEIGHTS", help="model folder to write")
            command.add_argument("--last", type=int, default=5, help="checkpoints to average (default 5)")
    return parser


def _keep_memory() -> None:
    """Start this process again with the allocator's settings, which it reads only once."""
    if sys.platform == "linux" and any(name not in os.environ for name in _ALLOCATOR):
        os.execve(sys.executable, [sys.executable, "-m", "model.training", *sys.argv[1:]], {**_ALLOCATOR, **os.environ})  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
