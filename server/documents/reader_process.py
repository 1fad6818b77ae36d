"""A process that reads and writes documents within limits. Each line of standard input is a task in
JSON, and each line of standard output its result."""

from __future__ import annotations

import resource
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from itertools import islice
from typing import Any

import orjson

from server.documents.document import (
    NO_MEMORY,
    Document,
    Workspace,
    add_lines,
    join_pieces,
    read_lines,
    sample,
    tagged_of,
)
from server.documents.formats import format_of
from server.errors import (
    AttentiveError,
    PayloadTooLarge,
    TextTooLong,
    TranslationFailed,
    Unavailable,
)
from server.process import tune_garbage_collector
from server.text.segmentation import cut_text
from server.text.tagged import Tagged

DATA_BYTES = 256_000_000
FILE_BYTES = 400_000_000
"""Limits on the memory of the process, and on a file that it writes."""
PIECE_CHARACTERS = 10_000
"""Longest piece of a text that is translated at once, unless it is a passage with codes in it."""
PASSAGE_CHARACTERS = 50_000
"""Longest passage with codes: a larger request would fill the queue."""


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM):  # the API process decides when this one ends
        signal.signal(ignored, signal.SIG_IGN)
    for kind, limit in ((resource.RLIMIT_DATA, DATA_BYTES), (resource.RLIMIT_FSIZE, FILE_BYTES)):
        resource.setrlimit(kind, (limit, limit))
    tune_garbage_collector()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(orjson.dumps(perform(**orjson.loads(line))) + b"\n")
        sys.stdout.buffer.flush()


def perform(
    action: str, folder: str, name: str, target: str, characters: int, output: str = ""
) -> dict[str, Any]:
    """Performs one task and returns its result, or an error with its class and message: "read"
    writes the texts of the upload, "write" the translated file. An internal error has a `trace`
    without text of the document."""
    workspace = Workspace(folder)
    try:
        document = read_document(name, workspace.upload.read_bytes(), target, output)
        if action == "write":
            translated = read_lines(workspace.translations)
            translations = [
                "".join(islice(translated, len(cut_pieces(document, text))))
                for text in document.texts
            ]
            workspace.result.write_bytes(document.write(translations))
            return {}
        shown = [tagged_of(text, document.format).text.strip("\r\n") for text in document.texts]
        size = sum(map(len, shown))
        if size > characters:
            raise TextTooLong(
                f"The file's {size:,} characters are over the limit of {characters:,}."
            )
        pieces = [piece for text in document.texts for piece in cut_pieces(document, text)]
        if max(map(len, pieces), default=0) > PASSAGE_CHARACTERS:
            raise PayloadTooLarge(
                f"A paragraph of the file is over the limit of {PASSAGE_CHARACTERS:,} characters; "
                "split it."
            )
        add_lines(workspace.texts, pieces)
        return {"format": document.format, "characters": size, "sample": sample(document)}
    except AttentiveError as error:
        return failure(error)
    except (MemoryError, RecursionError):
        return failure(PayloadTooLarge(NO_MEMORY))
    except OSError as error:
        return failure(Unavailable(f"The file cannot be kept: {error.strerror}.", 60))
    except Exception as error:  # noqa: BLE001  one document must not end the process
        trace = "".join([*traceback.format_tb(error.__traceback__), type(error).__name__])
        return failure(TranslationFailed("The file could not be translated."), trace=trace)


def cut_pieces(document: Document, text: str) -> list[str]:
    """Returns a text of the document, or the pieces of a long text, which are translated alone."""
    if len(text) <= PIECE_CHARACTERS:
        return [text]
    pieces: list[str] = []
    for passage in tagged_of(text, document.format).passages():
        has_codes = any(not code.splits for code in passage.codes)
        first, *others = [passage.text] if has_codes else cut_text(passage.text, PIECE_CHARACTERS)
        pieces += [
            passage._replace(text=first).write(),
            *[Tagged(each, (), passage.escape).write() for each in others],
        ]
    return join_pieces(pieces)


def read_document(name: str, content: bytes, target: str, output: str = "") -> Document:
    """Reads a file in the format of its name for a translation into the language `target`, in the
    format `output`. Raises InvalidRequest."""
    format = format_of(name, output)
    read: Callable[[bytes, str], Document] = getattr(
        import_module(f"server.documents.formats.{format.reader}"), format.function
    )
    return read(content, target)


def failure(error: AttentiveError, **trace: str) -> dict[str, Any]:
    return {"error": type(error).__name__, "message": error.message, **trace}


if __name__ == "__main__":
    main()
