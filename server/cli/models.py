"""`attentive models`: lists the models in the weights folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from itertools import islice

from server.cli.terminal import print_json, print_table
from server.config import Settings, add_flags
from server.translation.catalog import ServedModel
from server.translation.model_discovery import find_models

NAME = "models"
HELP = "List the models in the weights folder with language pairs, size and licence."
HEADINGS = ("NAME", "SIZE", "LICENCE", "PAIRS")
SHOWN_PAIRS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    add_flags(parser, ("weights",))


def run(arguments: argparse.Namespace) -> int:
    models, errors = find_models(Settings.read(arguments).weights)
    if arguments.json:
        print_json({"models": [described(model) for model in models], "errors": errors})
        return 1 if errors else 0
    rows = [
        (model.name, f"{size(model) / 1e6:,.1f} MB", model.license, shortened(sorted(model.pairs))) for model in models
    ]
    print_table(HEADINGS, *rows)
    for folder, reason in errors.items():
        print(f"{folder} cannot be used: {reason}", file=sys.stderr)
    return 1 if errors else 0


def described(model: ServedModel) -> dict[str, object]:
    """Returns the fields of one model."""
    return {
        "name": model.name,
        "pairs": [f"{source}-{target}" for source, target in sorted(model.pairs)],
        "bytes": size(model),
        "license": model.license,
        "folder": str(model.folder),
    }


def size(model: ServedModel) -> int:
    """Returns the bytes of all files of a model."""
    return sum(path.stat().st_size for path in model.folder.rglob("*") if path.is_file())


def shortened(pairs: Collection[tuple[str, str]]) -> str:
    """Returns at most twelve pairs of languages and the number of the others."""
    listed = " ".join(f"{source}-{target}" for source, target in islice(pairs, SHOWN_PAIRS))
    return listed + (f" and {len(pairs) - SHOWN_PAIRS} more" if len(pairs) > SHOWN_PAIRS else "")
