"""`attentive pull`: downloads a translation model from the Hugging Face hub, or one of Firefox's, and imports it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from model.model_folder import FolderError
from server.cli.import_model import add_options, import_from, options
from server.config import Settings, add_flags
from server.errors import AttentiveError

if TYPE_CHECKING:
    from model.convert.pull_folder import Downloaded

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
    options(arguments)  # imports torch, so that its absence is reported before the download
    try:
        download = _firefox if arguments.model.startswith(FIREFOX) else _hub
        downloaded, name, origin = download(arguments, settings)
    except FolderError as error:
        raise AttentiveError(str(error)) from None
    with downloaded:
        import_from(downloaded.path, arguments, options(arguments, name=name, origin=origin))
        downloaded.discard()
    return 0


def _hub(arguments: argparse.Namespace, settings: Settings) -> tuple[Downloaded, str, str]:
    """Downloads a model of the hub: its files, the name of its folder and its origin."""
    from model.convert.hub import download
    from model.convert.importer import new_folder

    name = arguments.name or arguments.model.rpartition("/")[2]
    new_folder(settings.weights, name, arguments.replace)  # raises before the download
    downloaded = download(arguments.model, settings.weights, arguments.revision)
    return downloaded, name, f"https://huggingface.co/{arguments.model}/tree/{downloaded.commit}"


def _firefox(arguments: argparse.Namespace, settings: Settings) -> tuple[Downloaded, str, str]:
    """Downloads a model of Firefox: its files, the name of its folder and its origin. Prints its size, licence and scores
    before."""
    from model.convert.importer import new_folder
    from model.convert.marian.firefox_list import download, find

    model = find(arguments.model.removeprefix(FIREFOX), settings.firefox_models)
    print(model, flush=True)
    name = arguments.name or f"firefox-{model.source}-{model.target}".replace("_", "-")
    new_folder(settings.weights, name, arguments.replace)  # raises before the download
    return download(model, settings.weights), name, f"{model.urls[0]}, SHA-256 {model.sha256}"
