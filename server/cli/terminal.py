"""Arguments, text files, standard streams and output that several commands share."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Literal, TextIO

from server.config import Settings, add_flags
from server.errors import AttentiveError, InvalidRequest


def whole_number(least: int) -> Callable[[str], int]:
    """Returns the type of a flag: a whole number of at least `least`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least}, not {text!r}")
        return int(text)

    return parse


def add_direction(
    parser: argparse.ArgumentParser, source: str, target: str = "Language to translate into."
) -> None:
    parser.add_argument("--from", dest="source", required=True, metavar="CODE", help=source)
    parser.add_argument("--to", dest="target", required=True, metavar="CODE", help=target)


def add_state_flags(*parsers: argparse.ArgumentParser) -> None:
    """Adds the flags of a server's state, for `state_settings`."""
    for parser in parsers:
        add_flags(parser, ("data", "state"))


def state_settings(arguments: argparse.Namespace) -> Settings:
    """Returns the settings of `add_state_flags`, whatever other flags the command has."""
    return Settings.read(argparse.Namespace(data=arguments.data, state=arguments.state))


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(*rows: Sequence[str]) -> None:
    """Prints rows, the first of them headings, in columns of equal width."""
    widths = [max(columns(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [
            cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=False)
        ]
        print("  ".join([*cells, row[-1]]))


def columns(text: str) -> int:
    """Returns the columns that a text takes in a terminal: two for wide characters, none for
    combining ones."""
    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in text)
    return (
        len(text)
        + wide
        - sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in text)
    )


def utf8_lines(lines: Iterable[str], name: str = "The input") -> Iterator[str]:
    """Yields the lines of a file. Raises InvalidRequest where it is not UTF-8."""
    try:
        yield from lines
    except UnicodeDecodeError:
        raise InvalidRequest(f"{name} is not UTF-8 text.") from None


@contextlib.contextmanager
def open_text(name: str, mode: Literal["r", "w", "a"]) -> Iterator[TextIO]:
    """Opens a file, or the standard stream for "-", as UTF-8 with unchanged line ends. Raises
    InvalidRequest."""
    if name == "-":
        stream: TextIO | None = sys.stdin if mode == "r" else sys.stdout
        if stream is None:
            raise InvalidRequest(
                f"Standard {'input' if mode == 'r' else 'output'} is closed; give the name of a "
                "file."
            )
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", newline="" if mode == "r" else "\n")
        yield stream
        return
    if not name:
        raise InvalidRequest("The name of a file is empty.")
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open(mode, encoding="utf-8", newline=""))
        except OSError as error:
            raise InvalidRequest(f"{name} cannot be opened: {error.strerror}.") from None
        yield file


def read_ahead(lines: Iterator[str], ahead: int) -> asyncio.Queue[str | Exception | None]:
    """Reads lines in a daemon thread, because a terminal blocks and Ctrl-C must not wait for the
    next line. Returns a queue of at most `ahead` lines, then None, or the error of the reading."""
    queue: asyncio.Queue[str | Exception | None] = asyncio.Queue(ahead)
    loop = asyncio.get_running_loop()

    def put(item: str | Exception | None) -> None:
        putting = queue.put(item)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        finally:
            putting.close()

    def read() -> None:
        # the event loop has ended and needs no lines
        with contextlib.suppress(RuntimeError, CancelledError):
            try:
                for line in lines:
                    put(line)
                put(None)
            except (AttentiveError, OSError) as error:
                put(error)

    threading.Thread(target=read, daemon=True).start()
    return queue


def styled(text: str, *styles: int) -> str:
    """Returns a text with ANSI attributes, unless the output is no terminal or NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{';'.join(map(str, styles))}m{text}\x1b[0m"
