"""`attentive export`: writes a model folder in the format of CTranslate2, Argos or Hugging Face."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.convert.argos.export import export_argos
from model.convert.ctranslate2.export import export_ctranslate2
from model.convert.huggingface.export import export_huggingface
from model.model_folder import FolderError, find_folders, read_folder
from server.config import Settings, add_flags
from server.errors import AttentiveError, InvalidRequest
from server.text.languages import language_name

NAME = "export"
HELP = "Export a model for CTranslate2, LibreTranslate (Argos) or transformers (Hugging Face)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, choices=("ctranslate2", "huggingface", "argos"), help="Format to write.")
    parser.add_argument(
        "--quantization",
        help="Number format of the exported weights, with --to ctranslate2 or argos. Examples are int8, int8_float16, "
        "float16 and bfloat16. [default: float32]",
    )
    parser.add_argument("model", help="Model folder, or name in the list of `attentive models`.")
    parser.add_argument("output", type=Path, help="Folder to create, or the file with --to argos.")
    for side in ("source", "target"):
        parser.add_argument(f"--{side}", default="", help=f"The {side} language of the package with --to argos.")
    add_flags(parser, ("weights",))


def run(arguments: argparse.Namespace) -> int:
    if arguments.quantization and arguments.to == "huggingface":
        raise InvalidRequest("--quantization goes with --to ctranslate2 or argos.")
    if (arguments.source or arguments.target) and arguments.to != "argos":
        raise InvalidRequest("--source and --target go with --to argos; the other formats hold every pair.")
    try:
        folder = read_folder(locate(arguments.model, Settings.read(arguments).weights))
        if arguments.to == "ctranslate2":
            export_ctranslate2(folder, arguments.output, quantization=arguments.quantization)
        elif arguments.to == "argos":
            pair = arguments.source, arguments.target
            export_argos(
                folder, arguments.output, *pair, quantization=arguments.quantization, language_name=language_name
            )
        else:
            export_huggingface(folder, arguments.output)
    except FolderError as error:
        raise AttentiveError(str(error)) from None
    print(f"{folder.name} -> {arguments.output}")
    print(
        "It has all that translates; not the confidence, the forms of address, the shortlist and the roles of the heads."
    )
    return 0


def locate(model: str, weights: Path) -> Path:
    """Returns the folder of a model by path or by name. Raises InvalidRequest where there is none."""
    if (Path(model) / "config.json").is_file():
        return Path(model)
    folders = {path.name: path for path in find_folders(weights)}
    if model not in folders:
        raise InvalidRequest(f"There is no model {model!r} under {weights}; there are: {', '.join(folders) or 'none'}.")
    return folders[model]
