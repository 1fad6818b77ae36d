"""`attentive look`: shows the word alignment and the strongest heads of a sentence, and writes pictures of them."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from server.access.authentication import Caller
from server.api.attention_formats import formatted
from server.api.attention_query import PICTURES, attention_query
from server.api.parameters import validated
from server.api.routes.attention import inspected_sentence
from server.api.schemas.attention import AttentionParameters
from server.cli.local_services import FLAGS, local_services, local_settings, running
from server.cli.look_remote import fetched
from server.cli.look_report import show
from server.cli.whole_numbers import from_zero
from server.config import add_flags
from server.errors import InvalidRequest
from server.services import Services
from server.translation.catalog import AUTO

NAME = "look"
HELP = "Show the word alignment and the strongest heads of a sentence, and write pictures of its attention."
EXAMPLES = """examples:
  attentive look "The cat sleeps." --from en --to de
  attentive look "The cat sleeps." --from en --to de --output cat.pdf --view alignment --theme print
  attentive look "The cat sleeps." --from en --to de --output heads.svg --view lines --kind cross --layer 0 --query Katze
  attentive look "The cat sleeps." --from en --to de --server http://localhost:8000
"""
PICTURE_FIELDS = ("view", "kind", "layer", "head", "query", "level", "normalize", "theme", "title", "width", "dpi")
"""Parameters of GET /attention that choose a picture and are flags here."""
_HELPS = {
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
HEADS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("text", help="Sentence to translate.")
    parser.add_argument(
        "--from", dest="source", required=True, metavar="CODE", help="Language of the sentence, or auto."
    )
    parser.add_argument("--to", dest="target", required=True, metavar="CODE", help="Language to translate into.")
    parser.add_argument("--translation", metavar="TEXT", help="Translation to inspect instead of the model's own.")
    parser.add_argument("--sentence", metavar="NUMBER", default="0", help="Sentence of the text. [default: 0]")
    parser.add_argument(
        "--masked-heads", metavar="HEADS", help="Heads that are switched off, such as cross.0.1,encoder.2.3."
    )
    parser.add_argument(
        "--heads", type=from_zero, default=HEADS, metavar="N", help=f"Heads to list; 0 lists none. [default: {HEADS}]"
    )
    parser.add_argument("--server", metavar="URL", help="Ask a running server instead of loading the model here.")
    parser.add_argument("--api-key", metavar="KEY", help="API key for --server.")
    picture = parser.add_argument_group("picture")
    picture.add_argument("--output", "-o", metavar="FILE", help="Picture to write: a .svg, .png or .pdf file.")
    for name in PICTURE_FIELDS:
        picture.add_argument(f"--{name}", help=_HELPS[name], metavar=name.upper())
    picture.add_argument("--no-special", action="store_true", help="Leave out the start and end of sentence and tags.")
    add_flags(parser, FLAGS)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.text.strip():
        raise InvalidRequest("The text is empty; give a sentence.")
    requests = [report_fields(arguments)]
    if arguments.output is not None:
        requests.append(picture_fields(arguments))
    if arguments.server is not None:
        answers = [fetched(arguments.server, fields, arguments.api_key) for fields in requests]
    else:
        answers = asyncio.run(local(local_services(local_settings(arguments)), requests))
    show(orjson.loads(answers[0]), Console(highlight=False), arguments.heads)
    if arguments.output is not None:
        try:
            Path(arguments.output).write_bytes(answers[1])
        except OSError as error:
            raise InvalidRequest(f"{arguments.output} cannot be written: {error.strerror}.") from None
        print(f"\n{arguments.output}: {len(answers[1]) / 1000:.0f} kB")
    return 0


def sentence_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the parameters of GET /attention that name the sentence."""
    given = {
        "q": arguments.text,
        "source": arguments.source,
        "target": arguments.target,
        "sentence": arguments.sentence,
        "translation": arguments.translation,
        "masked_heads": arguments.masked_heads,
        "beam_size": arguments.beam_size,
    }
    return {name: value for name, value in given.items() if value is not None}


def report_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the parameters for what the terminal shows."""
    if arguments.output is None and (
        unused := [name for name in PICTURE_FIELDS if getattr(arguments, name) is not None]
    ):
        raise InvalidRequest(f"--{unused[0]} is for pictures; give --output FILE with it.")
    method = {} if arguments.masked_heads else {"alignment": "combined"}
    return sentence_fields(arguments) | method | {"format": "json", "level": "word", "figures": "true"}


def picture_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the parameters of the picture. Raises InvalidRequest for a file name of another format."""
    format = Path(arguments.output).suffix.lower().removeprefix(".")
    if format not in PICTURES:
        raise InvalidRequest("Give --output a name that ends with .svg, .png or .pdf.")
    chosen = {name: value for name in PICTURE_FIELDS if (value := getattr(arguments, name)) is not None}
    special = {"special": "0"} if arguments.no_special else {}
    return sentence_fields(arguments) | {"view": "alignment", "level": "word"} | chosen | special | {"format": format}


async def local(services: Services, requests: list[dict[str, Any]]) -> list[bytes]:
    """Returns the answers that a server would give. Raises AttentiveError."""
    queries = []
    for fields in requests:
        asked = validated(AttentionParameters, fields)
        queries.append(attention_query(asked, "", time.monotonic() + services.settings.timeout_seconds))
    answers = []
    async with running(services, detector=requests[0]["source"].lower() == AUTO):
        for query in queries:
            subject = await inspected_sentence(query, services, Caller(NAME))
            result = await services.inspector.attend(subject, query.options, query.deadline)
            answers.append(bytes((await formatted(query, result, {})).body))
    return answers
