"""`attentive pull`: downloads a translation model from the Hugging Face hub and imports it."""

from __future__ import annotations

import argparse

from model.model_folder import FolderError
from server.cli.import_model import add_options, import_from, options
from server.config import Settings
from server.errors import InvalidRequest

NAME = "pull"
HELP = "Download a translation model from the Hugging Face hub and import it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="Name on the hub, such as Helsinki-NLP/opus-mt-en-de.")
    parser.add_argument(
        "--revision",
        default="main",
        help="Branch, tag or commit. The commit is recorded in the model folder. [default: main]",
    )
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from model.convert.hub import download

    try:
        found = download(arguments.model, Settings.read(arguments).weights, arguments.revision)
    except FolderError as error:
        raise InvalidRequest(str(error)) from None
    name = arguments.name or arguments.model.rpartition("/")[2]
    origin = f"https://huggingface.co/{arguments.model}/tree/{found.commit}"
    import_from(found.path, arguments, options(arguments, name=name, origin=origin))
    found.discard()
    return 0
