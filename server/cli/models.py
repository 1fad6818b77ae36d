"""`attentive models`: lists the models in the weights folder."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Collection
from itertools import islice

from model.convert.families import publishers
from model.convert.published import PublishedModel, codes, published_models
from model.model_folder import FolderError
from server.cli.terminal import print_json, print_table
from server.config import Settings, add_flags, comma_separated
from server.models.discovery import find_served
from server.translation.catalog import ModelCatalog, ServedModel

NAME = "models"
HELP = (
    "List the models of the server in the order of their use, with language pairs, size and "
    "licence."
)
HEADINGS = ("NAME", "SIZE", "LICENCE", "FOLDER", "ORDER", "PAIRS")
AVAILABLE = ("NAME", "SIZE", "LICENCE", "BLEU", "COMET", "PUBLISHER")
SHOWN_PAIRS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    parser.add_argument(
        "--available",
        nargs="?",
        const="",
        metavar="PAIR",
        help="List the models that `attentive pull` and --models find, for a pair such as en-de or "
        "for all, with the scores of their publishers on FLORES. Without a network, they are those "
        "of the lists in this version.",
    )
    add_flags(
        parser,
        (
            "weights",
            "data",
            "prefer",
            *(publisher.setting for publisher in publishers() if publisher.find_all),
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    settings = Settings.read(arguments)
    if arguments.available is not None:
        return print_available(arguments, settings)
    served, errors = find_served(settings)
    catalog = ModelCatalog(served, comma_separated(settings.prefer))
    models = catalog.models
    if arguments.json:
        print_json({"models": [described(model, catalog) for model in models], "errors": errors})
        return 1 if errors else 0
    rows = [
        (
            *(model.name, f"{size(model) / 1e6:,.1f} MB", model.license, str(model.folder.parent)),
            "--prefer" if model.name in catalog.prefer else f"preference {model.preference}",
            shortened_pairs(model, catalog),
        )
        for model in models
    ]
    print_table(HEADINGS, *rows)
    for folder, reason in errors.items():
        print(f"{folder} cannot be used: {reason}", file=sys.stderr)
    return 1 if errors else 0


def print_available(arguments: argparse.Namespace, settings: Settings) -> int:
    listed: list[PublishedModel] = list(published_models())
    for publisher in publishers():
        if publisher.find_all is None:
            continue
        try:
            now = publisher.find_all(getattr(settings, publisher.setting))
            listed = [
                *now,
                *(model for model in listed if not model.name.startswith(publisher.prefix)),
            ]
        except FolderError as error:
            print(f"{error} This is the list of this version.", file=sys.stderr)
    wanted = codes(arguments.available) if arguments.available else None
    chosen = [model for model in listed if wanted in (None, (model.source, model.target))]
    if arguments.json:
        print_json({"models": [dataclasses.asdict(model) for model in chosen]})
        return 0
    print_table(AVAILABLE, *map(published_row, chosen))
    return 0


def published_row(model: PublishedModel) -> tuple[str, ...]:
    """Returns the row of the table; a dash stands for what the list does not state."""
    scores = [str(model.scores.get(name, "-")) for name in ("bleu", "comet")]
    return (
        model.name,
        f"{model.bytes / 1e6:,.1f} MB" if model.bytes else "-",
        model.license,
        *scores,
        model.publisher,
    )


def shortened_pairs(model: ServedModel, catalog: ModelCatalog) -> str:
    """Returns the pairs for which a model is used, and how many others it has."""
    used = list(catalog.served_pairs(model))
    unused = len(model.pairs) - len(used)
    return shortened(used) + (f" ({unused} by models before)" if unused else "")


def described(model: ServedModel, catalog: ModelCatalog) -> dict[str, object]:
    return {
        "name": model.name,
        "pairs": [f"{source}-{target}" for source, target in sorted(model.pairs)],
        "used": [f"{source}-{target}" for source, target in catalog.served_pairs(model)],
        "bytes": size(model),
        "license": model.license,
        "folder": str(model.folder),
        "preference": model.preference,
        "scores": model.scores,
    }


def size(model: ServedModel) -> int:
    return sum(path.stat().st_size for path in model.folder.rglob("*") if path.is_file())


def shortened(pairs: Collection[tuple[str, str]]) -> str:
    """Returns the first pairs of languages and the number of the others."""
    listed = " ".join(f"{source}-{target}" for source, target in islice(pairs, SHOWN_PAIRS))
    return listed + (f" and {len(pairs) - SHOWN_PAIRS} more" if len(pairs) > SHOWN_PAIRS else "")
