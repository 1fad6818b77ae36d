"""`attentive export`: writes a model folder in the layout of another program."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from model.convert.families import exports
from model.model_folder import FolderError, find_folders, read_folder
from server.config import Settings, add_flags
from server.errors import AttentiveError, InvalidRequest
from server.text.languages import language_name

NAME = "export"
HELP = "Export a model in the layout of another program."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    quantizing, packages = layouts()
    parser.add_argument("--to", required=True, choices=sorted(exports()), help="Layout to write.")
    parser.add_argument(
        "--quantization",
        help=f"Number format of the exported weights, with --to {quantizing}. Examples are int8, "
        "int8_float16, float16 and bfloat16. [default: float32]",
    )
    parser.add_argument("model", help="Model folder, or name in the list of `attentive models`.")
    parser.add_argument(
        "output", type=Path, help=f"Folder to create, or the file with --to {packages}."
    )
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}",
            default="",
            help=f"The {side} language of the package with --to {packages}.",
        )
    add_flags(parser, ("weights",))


def layouts() -> tuple[str, str]:
    """Returns, for readers, the layouts with number formats, and those of one language pair."""
    all_ = exports().values()
    return " or ".join(target.name for target in all_ if target.quantizes), " or ".join(
        target.name for target in all_ if target.one_pair
    )


def run(arguments: argparse.Namespace) -> int:
    export, (quantizing, packages), options = exports()[arguments.to], layouts(), dict[str, Any]()
    if export.quantizes:
        options["quantization"] = arguments.quantization
    elif arguments.quantization:
        raise InvalidRequest(f"--quantization goes with --to {quantizing}.")
    if export.one_pair:
        options |= {
            "source": arguments.source,
            "target": arguments.target,
            "language_name": language_name,
        }
    elif arguments.source or arguments.target:
        raise InvalidRequest(
            f"--source and --target go with --to {packages}; the other formats hold every pair."
        )
    try:
        folder = read_folder(locate(arguments.model, Settings.read(arguments).weights))
        export.write(folder, arguments.output, **options)
    except FolderError as error:
        raise AttentiveError(str(error)) from None
    print(f"{folder.name} -> {arguments.output}")
    print(
        "It has all that translates; not the confidence, the forms of address, the shortlist and "
        "the roles of the heads."
    )
    return 0


def locate(model: str, weights: Path) -> Path:
    """Returns the folder of a model by path or by name. Raises InvalidRequest."""
    if (Path(model) / "config.json").is_file():
        return Path(model)
    folders = {path.name: path for path in find_folders(weights)}
    if model not in folders:
        raise InvalidRequest(
            f"There is no model {model!r} under {weights}; there are: "
            f"{', '.join(folders) or 'none'}."
        )
    return folders[model]
