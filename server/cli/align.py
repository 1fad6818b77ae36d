"""`attentive align`: writes the links between the words of sentence pairs, without a server."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import get_args

from tqdm import tqdm

from model.analysis.attention_alignment import word_spans
from server.cli.local_services import FLAGS, local_services, local_settings, running
from server.cli.terminal import add_direction, open_text, utf8_lines
from server.cli.translate import is_same_file
from server.config import add_flags
from server.engine.client.batch import gather_or_cancel
from server.errors import InvalidRequest, TextTooLong
from server.inspection.text_alignment import TextAligner, between_spaces
from server.inspection.types import AlignmentMethod
from server.translation_memory import KINDS, reader_of

NAME = "align"
HELP = "Write the links between the words of sentences and their translations, without a server."
PAIRS_AT_ONCE = 64
LINKS = frozenset(b"0123456789-:. \n")
"""Bytes of an output."""
Texts = tuple[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="file",
        help="Two files of UTF-8 text whose lines belong together, or one TSV, TMX, XLIFF or PO "
        "file.",
    )
    add_direction(parser, "Language of the sentences.", "Language of the translations.")
    parser.add_argument(
        "--output",
        "-o",
        default="-",
        metavar="FILE",
        help="File to write: a line for each pair with its links, such as 0-0 1-2. What a run "
        "before has written is kept, and continued. - is standard output. [default: -]",
    )
    parser.add_argument("--model", metavar="NAME", help="Model, as `attentive models` prints it.")
    parser.add_argument(
        "--method",
        choices=get_args(AlignmentMethod),
        default="combined",
        help="combined is more exact, attention faster. A model that cannot compare words has only "
        "attention. [default: combined]",
    )
    parser.add_argument(
        "--tokenized", action="store_true", help="The words are those between spaces."
    )
    parser.add_argument("--probabilities", action="store_true", help="Write links as 0-0:0.98.")
    add_flags(parser, FLAGS)


def run(arguments: argparse.Namespace) -> int:
    services = local_services(local_settings(arguments))
    leg = services.inspector.single_leg(
        arguments.source, arguments.target, "An alignment", arguments.model
    )
    files, name = arguments.files, arguments.output
    if "-" in files:
        raise InvalidRequest("Pairs are read twice, so they cannot come from standard input.")
    if any(is_same_file(file, name) for file in files):
        raise InvalidRequest("--output must not be a file that is read.")
    dropped = Counter[str]()
    total = sum(1 for _ in read(files, (leg.source, leg.target), dropped))
    for reason, number in dropped.items():
        print(f"attentive: {total} pairs; left out: {number} {reason}.", file=sys.stderr)
    done = 0 if name == "-" else written_lines(name, arguments.probabilities)
    if done > total:
        raise InvalidRequest(
            f"{name} has {done} lines, more than there are pairs; give another --output."
        )
    with (
        open_text(name, "a") as output,
        tqdm(total=total, initial=done, unit=" pairs", disable=None) as bar,
    ):

        async def links(number: int, texts: Texts) -> str:
            try:
                alignment = await aligner.align(*texts, f"pair {number}")
            except TextTooLong as error:
                bar.write(f"attentive: {error.message}", sys.stderr)
                return "\n"
            if arguments.probabilities:
                return (
                    " ".join(f"{i}-{j}:{probability:.2f}" for i, j, probability in alignment.links)
                    + "\n"
                )
            return alignment.pharaoh + "\n"

        async def write_all() -> None:
            pairs = islice(
                enumerate(read(files, (leg.source, leg.target), dropped), start=1), done, None
            )
            async with running(services):
                while batch := list(islice(pairs, PAIRS_AT_ONCE)):
                    output.writelines(await gather_or_cancel([links(*pair) for pair in batch]))
                    output.flush()
                    bar.update(len(batch))

        aligner = TextAligner(
            services.inspector,
            leg,
            arguments.method,
            between_spaces if arguments.tokenized else word_spans,
        )
        asyncio.run(write_all())
    return 0


def read(files: Sequence[str], languages: Texts, dropped: Counter[str]) -> Iterator[Texts]:
    """Yields the pairs of two files of lines, or of one file with both sides, and counts the
    `dropped`. Raises InvalidRequest."""
    reader = reader_of(Path(files[0]))
    if len(files) == 1 and reader is not None:
        try:
            yield from (
                (pair.source, pair.target) for pair in reader(Path(files[0]), languages, dropped)
            )
        except InvalidRequest as error:
            raise InvalidRequest(f"{files[0]}: {error}") from None
        return
    if len(files) != 2:
        raise InvalidRequest(f"Give two files whose lines belong together, or one of {KINDS}.")
    with open_text(files[0], "r") as first, open_text(files[1], "r") as second:
        try:
            yield from zip(utf8_lines(first, files[0]), utf8_lines(second, files[1]), strict=True)
        except ValueError:
            raise InvalidRequest(
                f"{files[0]} and {files[1]} have different numbers of lines."
            ) from None


def written_lines(name: str, probabilities: bool) -> int:
    """Returns the number of lines of links in a file, and cuts off half a line at its end. Raises
    InvalidRequest for other content."""
    lines = end = 0
    if Path(name).is_file():
        with Path(name).open("r+b") as file:
            for line in file:
                whole = line.endswith(b"\n")
                if not LINKS.issuperset(line) or (
                    whole and line.strip() and (b":" in line) is not probabilities
                ):
                    raise InvalidRequest(
                        f"{name} has other lines than this command writes; give another --output."
                    )
                lines, end = lines + whole, end + whole * len(line)
            file.truncate(end)
    return lines
