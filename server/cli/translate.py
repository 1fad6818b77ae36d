"""`attentive translate`: translates a file or standard input line by line, without a server."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tqdm import tqdm

from server.cli.local_services import FLAGS, local_services, local_settings, running
from server.cli.terminal import add_direction
from server.cli.text_streams import open_text, read_ahead, utf8_lines
from server.config import Settings, add_flags
from server.errors import InvalidRequest
from server.services import Services, default_options
from server.translation.catalog import AUTO
from server.translation.types import Translation, TranslationRequest

NAME = "translate"
HELP = "Translate a file or standard input line by line, without a server."
LINES_AT_ONCE = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="-", help="UTF-8 text file to translate. - is standard input. [default: -]"
    )
    add_direction(parser, "Language of the text, or auto to detect it.")
    parser.add_argument(
        "--output", "-o", default="-", metavar="FILE", help="File to write. - is standard output. [default: -]"
    )
    parser.add_argument("--html", action="store_true", help="Treat the lines as HTML and keep their tags.")
    parser.add_argument(
        "--on-flag",
        choices=("mark", "retry", "source"),
        default="mark",
        help="What happens to a sentence that is probably wrong: mark keeps its translation, retry translates it again with a "
        "wider beam, source writes the source text. [default: mark]",
    )
    parser.add_argument(
        "--no-progress", action="store_true", help="Hide the progress bar, which is shown on a terminal only."
    )
    add_flags(parser, FLAGS)


def run(arguments: argparse.Namespace) -> int:
    settings = local_settings(arguments)
    services = local_services(settings)
    catalog = services.translator.catalog
    catalog.target(arguments.target)  # an unknown language fails before the model is loaded
    if arguments.source.lower() != AUTO:
        catalog.route(arguments.source, arguments.target)
    if "-" not in (arguments.file, arguments.output) and is_same_file(arguments.file, arguments.output):
        raise InvalidRequest("--output must not be the file that is read.")
    with open_text(arguments.file, "r") as lines, open_text(arguments.output, "w") as output:
        shown = sys.stderr.isatty() and not arguments.no_progress
        with tqdm(total=count(arguments.file), unit=" lines", disable=not shown, dynamic_ncols=True) as bar:

            def write(line: str) -> None:
                output.write(line)
                output.flush()
                bar.update()

            asyncio.run(translate(services, utf8_lines(lines), write, request_template(arguments, settings)))
    return 0


def is_same_file(first: str, second: str) -> bool:
    """Returns whether two names are those of one existing file."""
    try:
        return Path(first).samefile(second)
    except OSError:
        return False


def count(name: str) -> int | None:
    """Returns the number of lines of a file, or None for standard input."""
    if name == "-":
        return None
    with Path(name).open("rb") as file:
        return sum(1 for _ in file)


def request_template(arguments: argparse.Namespace, settings: Settings) -> TranslationRequest:
    """Returns the request for a line, without its text."""
    return TranslationRequest(
        texts=(),
        source=arguments.source,
        target=arguments.target,
        format="html" if arguments.html else "text",
        options=default_options(settings),
        on_flag=arguments.on_flag,
        thorough=arguments.on_flag != "mark",
    )


async def translate(
    services: Services, lines: Iterator[str], write: Callable[[str], None], request: TranslationRequest
) -> None:
    """Writes the translations of all lines in order, with their line ends, each as soon as it and all lines before it are
    done. Up to LINES_AT_ONCE lines are translated at the same time, which fills the batch of the worker. Raises the
    AttentiveError of the first line that fails."""
    in_progress: asyncio.Queue[asyncio.Task[list[Translation]] | None] = asyncio.Queue(LINES_AT_ONCE)

    async def write_all() -> None:
        while (task := await in_progress.get()) is not None:
            write((await task)[0].text)

    async with running(services, detector=request.source.lower() == AUTO):
        unread = read_ahead(lines, LINES_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(write_all())
                while (line := await unread.get()) is not None:
                    if isinstance(line, Exception):
                        raise line
                    translating = services.translator.translate(dataclasses.replace(request, texts=(line,)))
                    await in_progress.put(group.create_task(translating))
                await in_progress.put(None)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
