"""`attentive look`: shows the word alignment and the strongest heads of a sentence, and writes
pictures of them."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from pydantic import ValidationError

from server.access.authentication import Caller
from server.api.attention_formats import PICTURES, attention_query
from server.api.errors import validation_message
from server.api.routes.attention import inspected
from server.api.schemas.attention import AttentionParameters
from server.cli.local_services import FLAGS, local_services, local_settings, running
from server.cli.terminal import add_direction, print_table, styled, whole_number
from server.config import add_flags
from server.errors import InvalidRequest
from server.services import Services

NAME = "look"
HELP = (
    "Show the word alignment and the strongest heads of a sentence, and write pictures of its "
    "attention."
)
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
"""Parameters of a picture in GET /attention that are flags here, with their help texts."""
SENTENCE_FIELDS = ("q", "source", "target", "sentence", "translation", "masked_heads", "beam_size")
"""Those that name the sentence."""
HEADS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("q", metavar="text", help="Sentence to translate.")
    add_direction(parser, "Language of the sentence, or auto.")
    parser.add_argument(
        "--translation", metavar="TEXT", help="Translation to inspect instead of the model's own."
    )
    parser.add_argument(
        "--sentence", metavar="NUMBER", default="0", help="Sentence of the text. [default: 0]"
    )
    parser.add_argument(
        "--masked-heads",
        metavar="HEADS",
        help="Heads that are switched off, such as cross.0.1,encoder.2.3.",
    )
    parser.add_argument(
        "--heads",
        type=whole_number(0),
        default=HEADS,
        metavar="N",
        help=f"Heads to list; 0 lists none. [default: {HEADS}]",
    )
    picture = parser.add_argument_group("picture")
    picture.add_argument(
        "--output", "-o", metavar="FILE", help="Picture to write: a .svg, .png or .pdf file."
    )
    for name, help in PICTURE_FIELDS.items():
        picture.add_argument(f"--{name}", help=help, metavar=name.upper())
    picture.add_argument(
        "--no-special",
        action="store_true",
        help="Leave out the start and end of sentence and tags.",
    )
    add_flags(parser, FLAGS)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.q.strip():
        raise InvalidRequest("The text is empty; give a sentence.")
    requests = requests_of(arguments)
    answers = asyncio.run(local(local_services(local_settings(arguments)), requests))
    show(orjson.loads(answers[0]), arguments.heads)
    if arguments.output is not None:
        try:
            Path(arguments.output).write_bytes(answers[1])
        except OSError as error:
            raise InvalidRequest(
                f"{arguments.output} cannot be written: {error.strerror}."
            ) from None
        print(f"\n{arguments.output}: {len(answers[1]) / 1000:.0f} kB")
    return 0


def requests_of(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the parameters of GET /attention for the terminal, and for the picture if there is
    one. Raises InvalidRequest."""
    stated = {name: value for name, value in vars(arguments).items() if value is not None}
    sentence = {name: stated[name] for name in SENTENCE_FIELDS if name in stated}
    picture = {name: stated[name] for name in PICTURE_FIELDS if name in stated}
    method = {} if arguments.masked_heads else {"alignment": "combined"}
    report = sentence | method | {"format": "json", "level": "word", "figures": "true"}
    if arguments.output is None:
        if picture:
            raise InvalidRequest(
                f"--{next(iter(picture))} is for pictures; give --output FILE with it."
            )
        return [report]
    format = Path(arguments.output).suffix.lower().removeprefix(".")
    if format not in PICTURES:
        raise InvalidRequest("Give --output a name that ends with .svg, .png or .pdf.")
    special = {"special": "0"} if arguments.no_special else {}
    return [
        report,
        sentence | {"view": "alignment", "level": "word"} | picture | special | {"format": format},
    ]


async def local(services: Services, requests: list[dict[str, Any]]) -> list[bytes]:
    """Returns the answers that a server would give. Raises AttentiveError."""
    deadline = time.monotonic() + services.settings.timeout_seconds
    try:
        parameters = [AttentionParameters.model_validate(fields) for fields in requests]
    except ValidationError as error:
        raise InvalidRequest(validation_message(error.errors())) from None
    queries = [attention_query(query_parameters, "") for query_parameters in parameters]
    answers = []
    async with running(services):
        for query in queries:
            answers.append(
                bytes((await inspected(query, services, Caller(NAME), "use", deadline)).body)
            )
    return answers


_BAR = 12
"""Width of the bar of weight 1, in characters."""
BOLD, DIM, CYAN = 1, 2, 36
"""Attributes of ANSI terminals."""
SIDES = {
    "cross": ("target", "source"),
    "encoder": ("source", "source"),
    "decoder": ("target", "decoder_input"),
}


def show(answer: dict[str, Any], heads: int) -> None:
    """Prints the sentence, its translation, the alignment and the strongest heads of an answer at
    word level."""
    print(styled(answer["source"]["text"], BOLD))
    print(styled(answer["target"]["text"], BOLD, CYAN))
    if answer["sentences"] > 1:
        print(
            styled(f"Sentence {answer['sentence']} of {answer['sentences']}, counted from 0.", DIM)
        )
    print(f"\nWord alignment ({answer['alignment']['method']})")
    print_table(("translation", "source", "weight"), *alignment_rows(answer))
    if heads and (strong := strongest(answer)[:heads]):
        print("\nStrongest heads")
        rows = [(name, role, largest, bar(strength)) for strength, name, role, largest in strong]
        print_table(("head", "role", "largest weight", "strength"), *rows)


def alignment_rows(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Returns each word of the translation, the source words that it is linked to, and the largest
    weight."""
    sources, rows = answer["source"]["words"], []
    for number, word in enumerate(answer["target"]["words"]):
        if word["start"] == word["end"]:
            continue
        links = [
            (sources[i]["text"], weight)
            for i, j, weight in answer["alignment"]["links"]
            if j == number
        ]
        linked = ", ".join(text for text, _ in links) or "-"
        rows.append(
            (word["text"], linked, bar(max(weight for _, weight in links)) if links else "")
        )
    return rows


def strongest(answer: dict[str, Any]) -> list[tuple[float, str, str, str]]:
    """Returns strength, name, role and largest weight of all heads, the strongest first. The
    strength is the mean over the words of the largest weight on another word; special tokens and a
    source word's weight on itself do not count."""
    heads = []
    for kind, sides in SIDES.items():
        if kind not in answer or answer[kind] is None:
            continue
        queries, keys = (answer[side]["words"] for side in sides)
        rows, columns = (
            [i for i, word in enumerate(words) if word["start"] < word["end"]]
            for words in (queries, keys)
        )
        if not rows or not columns:
            continue
        weights = np.array(answer[kind], dtype=np.float32)[:, :, rows][..., columns]
        if kind == "encoder":
            weights[..., range(len(rows)), range(len(rows))] = 0
        for layer, head in np.ndindex(*weights.shape[:2]):
            map = weights[layer, head]
            row, column = np.unravel_index(int(map.argmax()), map.shape)
            largest = (
                f"{queries[rows[row]]['text']} → {keys[columns[column]]['text']}  "
                f"{map[row, column]:.2f}"
            )
            role = str(answer["figures"][kind][layer][head]["role"])
            heads.append((float(map.max(axis=1).mean()), f"{kind}.{layer}.{head}", role, largest))
    return sorted(heads, key=lambda head: -head[0])


def bar(share: float) -> str:
    full = round(_BAR * max(0.0, min(1.0, share)))
    return f"{styled('█' * full, CYAN)}{styled('·' * (_BAR - full), DIM)} {share:.2f}"
