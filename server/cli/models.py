"""`attentive models`: lists the models in the weights folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from server.cli.tables import aligned
from server.config import Settings, add_flags
from server.translation.catalog import ServedModel
from server.translation.model_discovery import find_models

NAME = "models"
HELP = "List the models in the weights folder with language pairs, size and licence."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    add_flags(parser, ("weights",))


def run(arguments: argparse.Namespace) -> int:
    models, errors = find_models(Settings.read(arguments).weights)
    if arguments.json:
        print(
            json.dumps(
                {"models": [described(model) for model in models], "errors": errors}, indent=2, ensure_ascii=False
            )
        )
    else:
        print(table([described(model) for model in models]))
        for folder, reason in errors.items():
            print(f"{folder} cannot be used: {reason}", file=sys.stderr)
    return 1 if errors else 0


def described(model: ServedModel) -> dict[str, object]:
    """Returns the fields of one model. `bytes` is the size of all its files."""
    return {
        "name": model.name,
        "pairs": [f"{source}-{target}" for source, target in sorted(model.pairs)],
        "bytes": sum(path.stat().st_size for path in model.folder.rglob("*") if path.is_file()),
        "license": model.license,
        "folder": str(model.folder),
    }


def table(rows: Sequence[dict[str, object]]) -> str:
    """Returns the models as a table."""
    heads = ("NAME", "SIZE", "LICENCE", "PAIRS")
    lines = [(str(row["name"]), size(row["bytes"]), str(row["license"]), pairs(row["pairs"])) for row in rows]
    return aligned([heads, *lines])


def size(count: object) -> str:
    """Returns a number of bytes in megabytes."""
    return f"{int(str(count)) / 1e6:,.1f} MB"


def pairs(codes: object) -> str:
    """Returns at most twelve pairs and the number of the others."""
    listed = list(codes) if isinstance(codes, list) else []
    return " ".join(listed[:12]) + (f" and {len(listed) - 12} more" if len(listed) > 12 else "")
