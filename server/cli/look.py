"""`attentive look`: shows the word alignment and the strongest heads of a sentence, and writes pictures of them."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError
from rich.console import Console

from server.access.authentication import Caller
from server.api.attention_query import PICTURES, attention_query
from server.api.errors import validation_message
from server.api.routes.attention import inspected
from server.api.schemas.attention import AttentionParameters
from server.cli.local_services import FLAGS, local_services, local_settings, running
from server.cli.look_report import show
from server.cli.terminal import add_direction, whole_number
from server.config import add_flags
from server.errors import InvalidRequest
from server.services import Services

NAME = "look"
HELP = "Show the word alignment and the strongest heads of a sentence, and write pictures of its attention."
EXAMPLES = """examples:
  attentive look "The cat sleeps." --from en --to de
  attentive look "The cat sleeps." --from en --to de --output cat.pdf --view alignment --theme print
  attentive look "The cat sleeps." --from en --to de --output heads.svg --view lines --kind cross --layer 0 --query Katze
"""
PICTURE_FIELDS = {
    "view": "map, grid, lines, alignment or card. [default: alignment]",
    "kind": "Attention of a map, a grid or lines: cross, encoder or decoder.",
    "layer": "Layer, counted from 0, or all.",
    "head": "Head, counted from 0, several such as 0,3, or mean, max or all.",
    "query": "Row whose lines are shown or stand out: a word or a number.",
    "level": "word or piece. [default: word]",
    "normalize": "none, row or max.",
    "theme": "light, dark or print.",
    "title": "Title; empty for none.",
    "width": "Width in pixels of 1/96 inch.",
    "dpi": "Pixels per inch of a PNG.",
}
"""Parameters of GET /attention that choose a picture and are flags here, with their help texts."""
SENTENCE_FIELDS = ("q", "source", "target", "sentence", "translation", "masked_heads", "beam_size")
"""Those that name the sentence."""
HEADS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("q", metavar="text", help="Sentence to translate.")
    add_direction(parser, "Language of the sentence, or auto.")
    parser.add_argument("--translation", metavar="TEXT", help="Translation to inspect instead of the model's own.")
    parser.add_argument("--sentence", metavar="NUMBER", default="0", help="Sentence of the text. [default: 0]")
    parser.add_argument(
        "--masked-heads", metavar="HEADS", help="Heads that are switched off, such as cross.0.1,encoder.2.3."
    )
    parser.add_argument(
        "--heads",
        type=whole_number(0),
        default=HEADS,
        metavar="N",
        help=f"Heads to list; 0 lists none. [default: {HEADS}]",
    )
    picture = parser.add_argument_group("picture")
    picture.add_argument("--output", "-o", metavar="FILE", help="Picture to write: a .svg, .png or .pdf file.")
    for name, help in PICTURE_FIELDS.items():
        picture.add_argument(f"--{name}", help=help, metavar=name.upper())
    picture.add_argument("--no-special", action="store_true", help="Leave out the start and end of sentence and tags.")
    add_flags(parser, FLAGS)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.q.strip():
        raise InvalidRequest("The text is empty; give a sentence.")
    requests = requests_of(arguments)
    answers = asyncio.run(local(local_services(local_settings(arguments)), requests))
    show(orjson.loads(answers[0]), Console(highlight=False), arguments.heads)
    if arguments.output is not None:
        try:
            Path(arguments.output).write_bytes(answers[1])
        except OSError as error:
            raise InvalidRequest(f"{arguments.output} cannot be written: {error.strerror}.") from None
        print(f"\n{arguments.output}: {len(answers[1]) / 1000:.0f} kB")
    return 0


def requests_of(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the parameters of GET /attention for what the terminal shows, and for the picture if there is one. Raises
    InvalidRequest."""
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    sentence = {name: given[name] for name in SENTENCE_FIELDS if name in given}
    picture = {name: given[name] for name in PICTURE_FIELDS if name in given}
    method = {} if arguments.masked_heads else {"alignment": "combined"}
    report = sentence | method | {"format": "json", "level": "word", "figures": "true"}
    if arguments.output is None:
        if picture:
            raise InvalidRequest(f"--{next(iter(picture))} is for pictures; give --output FILE with it.")
        return [report]
    format = Path(arguments.output).suffix.lower().removeprefix(".")
    if format not in PICTURES:
        raise InvalidRequest("Give --output a name that ends with .svg, .png or .pdf.")
    special = {"special": "0"} if arguments.no_special else {}
    return [report, sentence | {"view": "alignment", "level": "word"} | picture | special | {"format": format}]


async def local(services: Services, requests: list[dict[str, Any]]) -> list[bytes]:
    """Returns the answers that a server would give. Raises AttentiveError."""
    deadline = time.monotonic() + services.settings.timeout_seconds
    try:
        parameters = [AttentionParameters.model_validate(fields) for fields in requests]
    except ValidationError as error:
        raise InvalidRequest(validation_message(error.errors())) from None
    queries = [attention_query(each, "") for each in parameters]
    answers = []
    async with running(services):
        for query in queries:
            answers.append(bytes((await inspected(query, services, Caller(NAME), "use", deadline)).body))
    return answers
