"""`attentive translate`: a file or standard input, line by line, without a server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import io
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, TextIO

from tqdm import tqdm

from model.search.options import DecodingOptions
from server.config import MAX_INT, Settings, add_flags
from server.errors import AttentiveError, InvalidRequest, Unavailable
from server.observability.logging import configure_logging
from server.services import Services
from server.translation.translator import Translator
from server.translation.types import TranslationRequest

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
    configure_logging("warning" if arguments.log_level is None else settings.log_level, settings.log_format)
    # Nobody asks for ids here, and the queue is bounded by the lines under way.
    services = Services(dataclasses.replace(settings, history=False, queue_tokens=MAX_INT))
    catalog = services.translator.catalog
    target = catalog.target(arguments.target)  # a wrong language is told before the model is loaded
    if arguments.source.lower() != "auto":
        catalog.route(catalog.source(arguments.source), target)
    with opened(arguments.file, "r") as lines, opened(arguments.output, "w") as output:
        shown = sys.stderr.isatty() and not arguments.no_progress
        with tqdm(total=count(arguments.file), unit=" lines", disable=not shown, dynamic_ncols=True) as bar:

            def write(line: str) -> None:
                output.write(line)
                output.flush()
                bar.update()

            asyncio.run(translate(services, decoded(lines), write, template(arguments, settings)))
    return 0


def count(name: str) -> int | None:
    """How many lines a file has; None for standard input."""
    if name == "-":
        return None
    with Path(name).open("rb") as file:
        return sum(1 for _ in file)


def template(arguments: argparse.Namespace, settings: Settings) -> TranslationRequest:
    """What is asked about every line."""
    return TranslationRequest(
        texts=(),
        source=arguments.source,
        target=arguments.target,
        format="html" if arguments.html else "text",
        options=DecodingOptions(beam_size=settings.beam_size, loop_guard=True),
    )


async def translate(
    services: Services, lines: Iterator[str], write: Callable[[str], None], request: TranslationRequest
) -> None:
    """Writes the translation of every line, in order, its line end kept. Raises AttentiveError at the first that
    fails."""
    await services.start()
    try:
        await services.loaded()
        if services.models.errors and not services.engine.status().models:
            raise Unavailable(" ".join(services.models.errors.values()))
        await pump(services.translator, lines, write, request)
    finally:
        await services.stop()


async def pump(
    translator: Translator, lines: Iterator[str], write: Callable[[str], None], request: TranslationRequest
) -> None:
    """Keeps up to LINES_AT_ONCE lines under way, so that the worker's batch is full, and writes each as soon as it and
    those before it are done."""
    under_way: asyncio.Queue[asyncio.Task[str] | None] = asyncio.Queue(LINES_AT_ONCE)

    async def write_all() -> None:
        while (task := await under_way.get()) is not None:
            write(await task)

    reader = Reader(lines)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(write_all())
            while (line := await reader.line()) is not None:
                await under_way.put(group.create_task(translated(translator, line, request)))
            await under_way.put(None)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        reader.close()


class Reader:
    """Lines through a thread, as reading may wait for a person to type; at most LINES_AT_ONCE ahead.

    The thread is a daemon: neither Ctrl-C nor a failure waits for the next line.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._read: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self._room = threading.Semaphore(LINES_AT_ONCE)
        self._closed = False
        threading.Thread(target=self._work, args=(lines, asyncio.get_running_loop()), daemon=True).start()

    async def line(self) -> str | None:
        """The next line, or None at the end. Raises what reading raised."""
        item = await self._read.get()
        self._room.release()
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        """Lets the thread end at its next line."""
        self._closed = True
        self._room.release()

    def _work(self, lines: Iterator[str], loop: asyncio.AbstractEventLoop) -> None:
        def put(item: str | Exception | None) -> None:
            self._room.acquire()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the line
                loop.call_soon_threadsafe(self._read.put_nowait, item)

        try:
            for line in lines:
                if self._closed:
                    return
                put(line)
            put(None)
        except (AttentiveError, OSError) as error:
            put(error)


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
