"""`attentive import`: a Marian or OPUS-MT model in a local folder becomes a model folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from model.model_folder import FolderError, ModelFolder
from server.config import Settings, add_flags
from server.errors import InvalidRequest

if TYPE_CHECKING:
    from model.convert.importer import ImportOptions

NAME = "import"
HELP = "Import a Marian or OPUS-MT model from a local folder (Hugging Face's layout or Marian's own)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="folder with config.json and weights, or with decoder.yml and a .npz")
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What may be said about a model beside its files, for `import` and `pull`."""
    parser.add_argument("--name", help="name of the new folder; the model's own unless given")
    parser.add_argument(
        "--source", metavar="CODES", default="", help="source languages, by commas, if the files do not tell"
    )
    parser.add_argument(
        "--target", metavar="CODES", default="", help="target languages, by commas, if the files do not tell"
    )
    parser.add_argument("--license", help="licence of the weights if the files do not tell")
    parser.add_argument("--replace", action="store_true", help="replace a folder of the same name")
    add_flags(parser, ("weights",))


def run(arguments: argparse.Namespace) -> int:
    import_from(arguments.path, arguments, options(arguments))
    return 0


def options(arguments: argparse.Namespace, **changes: str) -> ImportOptions:
    from model.convert.importer import ImportOptions  # imports torch

    said = {
        "name": arguments.name,
        "sources": codes(arguments.source),
        "targets": codes(arguments.target),
        "license": arguments.license,
        "replace": arguments.replace,
    }
    return ImportOptions(**{**said, **changes})


def import_from(path: Path, arguments: argparse.Namespace, chosen: ImportOptions) -> ModelFolder:
    """Import and say what came of it. Raises InvalidRequest with the reasons where it cannot be."""
    from model.convert.importer import import_model

    try:
        folder = import_model(path, Settings.read(arguments).weights, chosen)
    except FolderError as error:
        raise InvalidRequest(str(error)) from None
    pairs = " ".join(f"{source}-{target}" for source, target in folder.pairs[:12])
    more = f" and {len(folder.pairs) - 12} more" if len(folder.pairs) > 12 else ""
    print(f"{folder.path}: {pairs}{more}; licence: {folder.license}.")
    return folder


def codes(text: str) -> tuple[str, ...]:
    return tuple(code.strip() for code in text.split(",") if code.strip())
