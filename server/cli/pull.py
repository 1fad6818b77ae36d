"""`attentive pull`: downloads a translation model from the Hugging Face hub, or one of Firefox's, and imports it."""

from __future__ import annotations

import argparse

from model.convert import hub
from model.convert.importer import new_folder
from model.convert.marian import firefox_list
from model.model_folder import FolderError
from server.cli.import_model import add_options, import_from, options
from server.config import Settings, add_flags
from server.errors import AttentiveError

NAME = "pull"
HELP = "Download a translation model from the Hugging Face hub, or one of Firefox's, and import it."
FIREFOX = "firefox/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="Name on the hub, such as Helsinki-NLP/opus-mt-en-de, or firefox/en-de.")
    parser.add_argument(
        "--revision",
        default="main",
        help="Branch, tag or commit. The commit is recorded in the model folder. [default: main]",
    )
    add_options(parser)
    add_flags(parser, ("firefox_models",))


def run(arguments: argparse.Namespace) -> int:
    settings = Settings.read(arguments)
    try:
        if arguments.model.startswith(FIREFOX):
            model = firefox_list.find(arguments.model.removeprefix(FIREFOX), settings.firefox_models)
            print(model, flush=True)
            name = arguments.name or f"firefox-{model.source}-{model.target}".replace("_", "-")
            download = firefox_list.download(model, settings.weights)
        else:
            name = arguments.name or arguments.model.rpartition("/")[2]
            download = hub.download(arguments.model, settings.weights, arguments.revision)
        new_folder(settings.weights, name, arguments.replace)  # raises before the download
        with download as (path, origin):
            import_from(path, arguments, options(arguments, name=name, origin=origin))
    except FolderError as error:
        raise AttentiveError(str(error)) from None
    return 0
