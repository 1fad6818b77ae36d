"""`attentive models`: lists the models in the weights folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from itertools import islice

from server.cli.terminal import print_json, print_table
from server.config import Settings, add_flags, comma_separated
from server.translation.catalog import ModelCatalog, ServedModel
from server.translation.model_discovery import find_models

NAME = "models"
HELP = "List the models in the weights folder in the order of their use, with language pairs, size and licence."
HEADINGS = ("NAME", "SIZE", "LICENCE", "PAIRS")
SHOWN_PAIRS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    add_flags(parser, ("weights", "prefer"))


def run(arguments: argparse.Namespace) -> int:
    settings = Settings.read(arguments)
    found, errors = find_models(settings.weights)
    catalog = ModelCatalog(found, comma_separated(settings.prefer))
    models = catalog.models
    if arguments.json:
        print_json({"models": [described(model, catalog) for model in models], "errors": errors})
        return 1 if errors else 0
    rows = [
        (model.name, f"{size(model) / 1e6:,.1f} MB", model.license, shortened_pairs(model, catalog)) for model in models
    ]
    print_table(HEADINGS, *rows)
    for folder, reason in errors.items():
        print(f"{folder} cannot be used: {reason}", file=sys.stderr)
    return 1 if errors else 0


def shortened_pairs(model: ServedModel, catalog: ModelCatalog) -> str:
    """Returns the pairs for which a model is used, and how many others it has."""
    used = list(catalog.served_pairs(model))
    unused = len(model.pairs) - len(used)
    return shortened(used) + (f" ({unused} by models before)" if unused else "")


def described(model: ServedModel, catalog: ModelCatalog) -> dict[str, object]:
    """Returns the fields of one model."""
    return {
        "name": model.name,
        "pairs": [f"{source}-{target}" for source, target in sorted(model.pairs)],
        "used": [f"{source}-{target}" for source, target in catalog.served_pairs(model)],
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
