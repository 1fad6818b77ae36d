"""`attentive translate`: translates a document or lines of text, without a server."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from server.cli.local_services import FLAGS, local_services, local_settings, running
from server.cli.terminal import add_direction, open_text, read_ahead, utf8_lines
from server.config import Settings, add_flags
from server.documents.formats import FORMATS, SUFFIXES, format_of
from server.errors import InvalidRequest
from server.services import Services, default_options
from server.translation.catalog import AUTO
from server.translation.types import Translation, TranslationRequest

NAME = "translate"
HELP = "Translate a document, or a text file or standard input line by line, without a server."
LINES_AT_ONCE = 256
DOCUMENTS = tuple(suffix for suffix in SUFFIXES if suffix != ".txt")
NO_LINES = {
    kind.suffix for kind in FORMATS if kind.written_as or not kind.media_type.startswith("text/")
}
"""Suffixes of files that are not lines of text."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        help=f"File to translate: a document ({', '.join(DOCUMENTS)}), or UTF-8 text, line by "
        "line. - is standard input. [default: -]",
    )
    add_direction(parser, "Language of the text, or auto to detect it.")
    parser.add_argument(
        "--output",
        "-o",
        default="-",
        metavar="FILE",
        help="File to write. - is standard output. [default: -]",
    )
    parser.add_argument(
        "--html",
        action="store_true",
        help="Translate any file line by line, as HTML whose tags are kept.",
    )
    parser.add_argument(
        "--on-flag",
        choices=("mark", "retry", "source"),
        default="mark",
        help="What happens to a sentence that is probably wrong: mark keeps its translation, retry "
        "translates it again with a wider beam, source writes the source text. [default: mark]",
    )
    parser.add_argument(
        "--no-progress",
        action="store_true",
        help="Hide the progress bar, which is shown on a terminal only.",
    )
    add_flags(parser, (*FLAGS, "file_characters"))


def run(arguments: argparse.Namespace) -> int:
    settings = local_settings(arguments)
    services = local_services(settings)
    catalog = services.translator.catalog
    catalog.target(arguments.target)  # an unknown language fails before the model is loaded
    if arguments.source.lower() != AUTO:
        catalog.route(arguments.source, arguments.target)
    if "-" not in (arguments.file, arguments.output) and is_same_file(
        arguments.file, arguments.output
    ):
        raise InvalidRequest("--output must not be the file that is read.")
    suffix = Path(arguments.output).suffix.lower()
    if is_document := arguments.file.lower().endswith(DOCUMENTS) and not arguments.html:
        format_of(arguments.file, suffix, "the suffix of --output")
    elif suffix in NO_LINES:
        raise InvalidRequest(
            f"Lines of text are not written as a {suffix} file; end the name of --output with .txt."
        )
    request = request_template(arguments, settings)
    hidden = arguments.no_progress or None  # None shows the bar on a terminal
    if is_document:
        with tqdm(unit=" characters", disable=hidden, dynamic_ncols=True) as bar:
            asyncio.run(
                translate_document(services, arguments.file, arguments.output, request, bar)
            )
        return 0
    with (
        open_text(arguments.file, "r") as lines,
        open_text(arguments.output, "w") as output,
        tqdm(total=count(arguments.file), unit=" lines", disable=hidden, dynamic_ncols=True) as bar,
    ):

        def write(line: str) -> None:
            output.write(line)
            output.flush()
            bar.update()

        asyncio.run(translate(services, utf8_lines(lines), write, request))
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
    services: Services,
    lines: Iterator[str],
    write: Callable[[str], None],
    request: TranslationRequest,
) -> None:
    """Writes the translations of all lines in order, with their line ends, each as soon as all
    before it are done. Up to LINES_AT_ONCE lines are translated at the same time. Raises the
    AttentiveError of the first line that fails."""
    in_progress: asyncio.Queue[asyncio.Task[list[Translation]] | None] = asyncio.Queue(
        LINES_AT_ONCE
    )

    async def write_all() -> None:
        while (task := await in_progress.get()) is not None:
            write((await task)[0].text)

    async with running(services):
        unread = read_ahead(lines, LINES_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(write_all())
                while (line := await unread.get()) is not None:
                    if isinstance(line, Exception):
                        raise line
                    translating = services.translator.translate(
                        dataclasses.replace(request, texts=(line,))
                    )
                    await in_progress.put(group.create_task(translating))
                await in_progress.put(None)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None


async def translate_document(
    services: Services, name: str, output: str, request: TranslationRequest, bar: tqdm[Any]
) -> None:
    """Translates a document as POST /translate_file does. One that cannot be read leaves the output
    as it was and fails before the model is loaded. Raises AttentiveError."""
    documents = services.documents
    with open_text(name, "r") as file:
        content = file.buffer.read()
    try:
        document = await documents.receive(content, name, request.target, NAME, Path(output).suffix)
        bar.reset(document.characters)
        with open_text(output, "w") as file:
            async with running(services):
                made = await documents.translate(
                    document, request, patient=True, progress=bar.update
                )
                stored = (await documents.store.find(made.token)).content
                content = (
                    stored
                    if isinstance(stored, bytes)
                    else await asyncio.to_thread(stored.read_bytes)
                )
            file.buffer.write(content)
    finally:
        await services.stop()
    if made.warning:
        bar.write(f"attentive: {made.warning}", sys.stderr)
