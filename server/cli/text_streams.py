"""Opens text files and standard streams, and reads lines without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TextIO

from server.errors import AttentiveError, InvalidRequest


def utf8_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines. Raises InvalidRequest where the file is not UTF-8."""
    try:
        yield from lines
    except UnicodeDecodeError:
        raise InvalidRequest("The input is not UTF-8 text.") from None


@contextlib.contextmanager
def open_text(name: str, mode: Literal["r", "w"]) -> Iterator[TextIO]:
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


class LineReader:
    """Reads lines in a thread, because reading from a terminal blocks. Reads at most `ahead` lines ahead.

    The thread is a daemon, so that Ctrl-C and failures do not wait for the next line.
    """

    def __init__(self, lines: Iterator[str], ahead: int) -> None:
        self._read: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self._room = threading.Semaphore(ahead)
        self._closed = False
        threading.Thread(target=self._work, args=(lines, asyncio.get_running_loop()), daemon=True).start()

    async def line(self) -> str | None:
        """Returns the next line, or None at the end. Raises the error of the reading thread."""
        item = await self._read.get()
        self._room.release()
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        """Ends the thread after its next line."""
        self._closed = True
        self._room.release()

    def _work(self, lines: Iterator[str], loop: asyncio.AbstractEventLoop) -> None:
        def put(item: str | Exception | None) -> None:
            self._room.acquire()
            with contextlib.suppress(RuntimeError):  # the event loop is closed, so the line is not needed
                loop.call_soon_threadsafe(self._read.put_nowait, item)

        try:
            for line in lines:
                if self._closed:
                    return
                put(line)
            put(None)
        except (AttentiveError, OSError) as error:
            put(error)
