"""`attentive pull`: downloads a translation model by its name and imports it."""

from __future__ import annotations

import argparse
import json
import signal
import sys

from model.convert import hub
from model.convert.downloads import Progress
from model.convert.families import publishers
from model.convert.importer import new_folder
from model.convert.published import EXAMPLES, LISTS, folder_in, full_name
from model.model_folder import FolderError
from server.cli.import_model import add_options, import_from, options
from server.config import Settings, add_flags
from server.errors import ADD_TORCH, AttentiveError

NAME = "pull"
HELP = "Download a published translation model by its name and import it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        help="A pair such as en-de for the best model of `attentive models --available`, or a "
        f"name: {EXAMPLES}, or another model of the hub.",
    )
    parser.add_argument(
        "--revision",
        default="main",
        help="Branch, tag or commit on the hub. The commit is recorded in the model folder. "
        "[default: main]",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="Print JSON lines with file, bytes and total, at last the folder with 0 and 0, or an "
        "error, and whether it is final, so that another try is of no use.",
    )
    add_options(parser)
    add_flags(parser, ("data", *LISTS))


def run(arguments: argparse.Namespace) -> int:
    # scratch files are removed
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        pull(arguments, print_line if arguments.json else None)
    except (FolderError, AttentiveError) as error:
        if not arguments.json:
            raise AttentiveError(str(error)) from None
        print(
            json.dumps({"error": str(error), "final": getattr(error, "final", False)}), flush=True
        )
        return 1
    except ModuleNotFoundError as error:
        if not arguments.json or error.name != "torch":
            raise
        print(
            json.dumps({"error": f"The model runs with PyTorch only. {ADD_TORCH}", "final": True}),
            flush=True,
        )
        return 1
    return 0


def pull(arguments: argparse.Namespace, progress: Progress | None) -> None:
    """Downloads and imports a model. Raises FolderError or AttentiveError."""
    settings = Settings.read(arguments)
    weights, name = settings.pull_folder, full_name(arguments.model)
    folder = arguments.name or folder_in(weights, name)
    new_folder(weights, folder, arguments.replace)  # raises before the download
    publisher = next(
        (candidate for candidate in publishers() if name.startswith(candidate.prefix)), None
    )
    if publisher is not None:
        pair, address = name.removeprefix(publisher.prefix), getattr(settings, publisher.setting)
        download = publisher.download(pair, weights, address, progress)
    else:
        download = hub.download(name, weights, arguments.revision, progress)
    with download as (path, origin):
        if progress is not None:
            progress(folder, 0, 0)
        import_from(path, weights, options(arguments, name=folder, origin=origin))


def print_line(file: str, done: int, total: int) -> None:
    print(json.dumps({"file": file, "bytes": done, "total": total}), flush=True)
