"""`attentive translate`: a file or standard input, line by line, without a server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import io
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TextIO

from tqdm import tqdm

from model.options import DecodingOptions
from server.config import Settings, add_flags
from server.errors import InvalidRequest, Unavailable
from server.log import configure
from server.services import Services
from server.translation import TranslationRequest
from server.translator import Translator

NAME = "translate"
HELP = "Translate a file or standard input line by line, without a server."
LINES_AT_ONCE = 256
FLAGS = ("weights", "device", "dtype", "threads", "slots", "prefill_tokens", "beam_size", "log_level", "log_format")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="-", help="UTF-8 text to translate; - or nothing is standard input")
    parser.add_argument("--from", dest="source", required=True, metavar="CODE", help="language of the text, or auto")
    parser.add_argument("--to", dest="target", required=True, metavar="CODE", help="language to translate into")
    parser.add_argument(
        "--output", "-o", default="-", metavar="FILE", help="where to write; - or nothing is standard output"
    )
    parser.add_argument("--html", action="store_true", help="the lines are HTML: keep their tags")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar (there is none without a terminal)")
    add_flags(parser, FLAGS)


def run(arguments: argparse.Namespace) -> int:
    settings = Settings.read(arguments)
    configure("warning" if arguments.log_level is None else settings.log_level, settings.log_format)
    services = Services(settings)
    catalog = services.translator.catalog
    target = catalog.target(arguments.target)  # a wrong language is told before the model is loaded
    if arguments.source.lower() != "auto":
        catalog.route(catalog.source(arguments.source), target)
    with opened(arguments.file, "r") as lines, opened(arguments.output, "w") as output:
        shown = sys.stderr.isatty() and not arguments.no_progress
        with tqdm(lines, unit=" lines", disable=not shown, dynamic_ncols=True) as bar:
            asyncio.run(translate(services, decoded(bar), output, template(arguments, settings)))
    return 0


def template(arguments: argparse.Namespace, settings: Settings) -> TranslationRequest:
    """What is asked about every line."""
    return TranslationRequest(
        texts=(),
        source=arguments.source,
        target=arguments.target,
        format="html" if arguments.html else "text",
        options=DecodingOptions(beam_size=settings.beam_size),
    )


async def translate(services: Services, lines: Iterator[str], output: TextIO, request: TranslationRequest) -> None:
    """Writes the translation of every line, in order, its line end kept. Raises AttentiveError at the first that
    fails."""
    await services.start()
    try:
        await services.loaded()
        if services.model_errors and not services.engine.status().models:
            raise Unavailable(" ".join(services.model_errors.values()))
        await pump(services.translator, lines, output, request)
    finally:
        await services.stop()


async def pump(translator: Translator, lines: Iterator[str], output: TextIO, request: TranslationRequest) -> None:
    """Keeps up to LINES_AT_ONCE lines under way, so that the worker's batch is full."""
    under_way: deque[asyncio.Task[str]] = deque()
    try:
        for line in lines:
            under_way.append(asyncio.create_task(translated(translator, line, request)))
            if len(under_way) >= LINES_AT_ONCE:
                output.write(await under_way.popleft())
            await asyncio.sleep(0)
        while under_way:
            output.write(await under_way.popleft())
        output.flush()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def translated(translator: Translator, line: str, request: TranslationRequest) -> str:
    [translation] = await translator.translate(dataclasses.replace(request, texts=(line,)))
    return translation.text


def decoded(lines: Iterable[str]) -> Iterator[str]:
    """The lines. Raises InvalidRequest where the file is not UTF-8."""
    try:
        yield from lines
    except UnicodeDecodeError:
        raise InvalidRequest("The input is not UTF-8 text.") from None


@contextlib.contextmanager
def opened(name: str, mode: Literal["r", "w"]) -> Iterator[TextIO]:
    """A file by name, or the standard stream for "-". UTF-8, line ends as they are. Raises InvalidRequest."""
    if name == "-":
        stream = sys.stdin if mode == "r" else sys.stdout
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", newline="" if mode == "r" else "\n")
        yield stream
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open(mode, encoding="utf-8", newline=""))
        except OSError as error:
            raise InvalidRequest(f"{name} cannot be opened: {error.strerror}.") from None
        yield file
