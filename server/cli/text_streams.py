"""Opens text files and standard streams, and reads lines without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Literal, TextIO

from server.errors import AttentiveError, InvalidRequest


def utf8_lines(lines: Iterable[str], name: str = "The input") -> Iterator[str]:
    """Yields the lines of a file. Raises InvalidRequest where it is not UTF-8."""
    try:
        yield from lines
    except UnicodeDecodeError:
        raise InvalidRequest(f"{name} is not UTF-8 text.") from None


@contextlib.contextmanager
def open_text(name: str, mode: Literal["r", "w", "a"]) -> Iterator[TextIO]:
    """Opens a file by name, or the standard stream for "-", as UTF-8 with unchanged line ends. Raises
    InvalidRequest."""
    if name == "-":
        stream: TextIO | None = sys.stdin if mode == "r" else sys.stdout
        if stream is None:
            raise InvalidRequest(f"Standard {'input' if mode == 'r' else 'output'} is closed; give the name of a file.")
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
    """Reads lines in a thread, because reading from a terminal blocks. Returns a queue of at most `ahead` lines, then
    None, or the error of the reading.

    The thread is a daemon, so that Ctrl-C and failures do not wait for the next line.
    """
    queue: asyncio.Queue[str | Exception | None] = asyncio.Queue(ahead)
    loop = asyncio.get_running_loop()

    def put(item: str | Exception | None) -> None:
        putting = queue.put(item)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        finally:
            putting.close()

    def read() -> None:
        with contextlib.suppress(RuntimeError, CancelledError):  # the event loop has ended and needs no lines
            try:
                for line in lines:
                    put(line)
                put(None)
            except (AttentiveError, OSError) as error:
                put(error)

    threading.Thread(target=read, daemon=True).start()
    return queue
