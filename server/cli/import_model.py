"""`attentive import`: converts a model in a local folder to a model folder."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

from model.convert.families import signs
from model.convert.importer import ImportOptions, import_model
from model.model_folder import FolderError
from server.cli.models import shortened
from server.config import Settings, add_flags, comma_separated
from server.engine.worker.memory import free_memory, too_large
from server.errors import AttentiveError
from server.models.discovery import read_confidence

NAME = "import"
HELP = "Import a model of another program from a local folder or file."
NON_COMMERCIAL = re.compile(r"cc-by-nc\b|non-?commercial")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        type=Path,
        help=f"Folder or file of a model, which is known by one of: {signs()}.".replace("%", "%%"),
    )
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that `import` and `pull` share."""
    parser.add_argument("--name", help="Name of the new folder. [default: the name of the model]")
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}",
            metavar="CODES",
            default="",
            help=f"Codes of the {side} languages, separated by commas. Needed if the model files "
            "do not name them.",
        )
    parser.add_argument(
        "--license", help="Licence of the weights, if the model files do not name it."
    )
    parser.add_argument("--replace", action="store_true", help="Replace a folder of the same name.")
    add_flags(parser, ("weights",))


def run(arguments: argparse.Namespace) -> int:
    import_from(arguments.path, Settings.read(arguments).weights, options(arguments))
    return 0


def options(arguments: argparse.Namespace, **changes: str) -> ImportOptions:
    """Returns the import options of the flags, with `changes`."""
    flags = {
        "name": arguments.name,
        "sources": tuple(comma_separated(arguments.source)),
        "targets": tuple(comma_separated(arguments.target)),
        "license": arguments.license,
        "replace": arguments.replace,
    }
    return ImportOptions(**flags | changes)


def import_from(path: Path, weights: Path, import_options: ImportOptions) -> None:
    """Imports a model as a folder under `weights` and prints the result. Raises AttentiveError."""
    needed, free = memory_needed(path), free_memory()
    if free is not None and needed > free:
        raise AttentiveError(f"{path.name} cannot be imported. {too_large(needed, free)}")
    try:
        folder = import_model(path, weights, import_options)
    except FolderError as error:
        raise AttentiveError(str(error)) from None
    except MemoryError:
        raise AttentiveError(
            f"{path.name} cannot be imported. {too_large(needed, free_memory())}"
        ) from None
    size = sum(file.stat().st_size for file in folder.path.iterdir()) / 1e6
    limits = (
        ", which forbids commercial use" if NON_COMMERCIAL.search(folder.license.lower()) else ""
    )
    scores = "".join(f"; {name.upper()} {score} on FLORES" for name, score in folder.scores.items())
    print(
        f"{folder.path}: {shortened(folder.pairs)}; {size:,.1f} MB; licence: "
        f"{folder.license}{limits}{scores}."
    )
    if read_confidence(folder.path) is None:
        print(f"It has no confidence; `attentive calibrate {folder.name} --pairs FILE` fits one.")


def memory_needed(path: Path) -> int:
    """Returns about the bytes that an import takes: the weights of one format, read and ready to
    translate."""
    sizes = Counter[str]()
    for file in path.iterdir() if path.is_dir() else [path] if path.is_file() else []:
        sizes[file.suffix] += file.stat().st_size
    return 2 * max(sizes.values(), default=0)
