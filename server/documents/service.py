"""Translates documents: reads a file, translates its texts in batches with low priority, and writes the new file."""

from __future__ import annotations

import asyncio
import dataclasses
import html
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import PurePosixPath, PureWindowsPath

from server.access.admission import Admission
from server.documents.document import Document
from server.documents.formats import FileFormat, format_of
from server.documents.store import FileStore
from server.errors import InvalidRequest, Overloaded, TextTooLong
from server.text.html_scanner import scan_markup
from server.translation.catalog import AUTO
from server.translation.time_limit import time_limit
from server.translation.translator import Translator
from server.translation.types import TranslationRequest

BATCH_CHARACTERS = 10_000
BATCH_TEXTS = 200
"""Limits of one request to the translator: enough to fill a batch, and small enough that other requests are served
between two batches."""
SAMPLE_CHARACTERS = 2_000
"""Number of characters for the detection of the language."""
NAME_CHARACTERS = 100
"""Longest file name without its suffix."""


class DocumentTranslator:
    """Translates files, at most `jobs` at the same time and each with at most `characters`."""

    def __init__(self, translator: Translator, store: FileStore, characters: int, jobs: int) -> None:
        self.store = store
        self.characters = characters
        self._translator = translator
        self._admission = Admission(jobs)
        self._reading = asyncio.Semaphore(jobs)

    async def read(self, content: bytes, name: str, target: str) -> tuple[FileFormat, Document]:
        """Reads a file. Raises UnsupportedMediaType, InvalidRequest, PayloadTooLarge or TextTooLong."""
        format = format_of(name)
        language = self._translator.catalog.target(target)
        async with self._reading:
            document = await asyncio.to_thread(format.read, content, language)
        if document.characters > self.characters:
            raise TextTooLong(
                f"The file's {document.characters:,} characters are over the limit of {self.characters:,}."
            )
        return format, document

    async def translate(self, document: Document, request: TranslationRequest, patient: bool = False) -> bytes:
        """Returns the file with its texts translated with the options of `request`; the texts of `request` are ignored.

        Raises the errors of `Translator.translate`. If the server is overloaded it raises Overloaded, or waits if
        `patient`; after the first batch it always waits.
        """
        async with time_limit(request.deadline):
            with ExitStack() as slot:
                await self._enter(slot, patient)
                source = await self._source(document, request)
                translated: list[str] = []
                for texts in batches(document.texts):
                    batch = dataclasses.replace(
                        request, texts=texts, source=source, format=document.format, remember=False
                    )
                    translated += await self._translate_batch(batch, patient or bool(translated))
                return await asyncio.to_thread(document.write, translated)

    async def _enter(self, slot: ExitStack, patient: bool) -> None:
        """Takes one of the slots for files. If all are taken, waits if `patient`, and raises Overloaded otherwise."""
        while True:
            try:
                slot.enter_context(self._admission.admit(1))
                return
            except Overloaded as busy:
                if not patient:
                    raise
                await asyncio.sleep(busy.retry_after)

    async def _source(self, document: Document, request: TranslationRequest) -> str:
        """Returns the source language, detected once for the whole file."""
        if request.source.strip().lower() != AUTO or not document.texts:
            return request.source
        guesses = await asyncio.to_thread(self._translator.detect, sample(document))
        if not guesses:
            raise InvalidRequest("The language cannot be detected here; name it in source.")
        return guesses[0].language

    async def _translate_batch(self, request: TranslationRequest, patient: bool) -> list[str]:
        """Translates one batch. If the server is overloaded, waits if `patient`, and raises Overloaded otherwise."""
        while True:
            try:
                return [translation.text for translation in await self._translator.translate(request)]
            except Overloaded as busy:
                if not patient:
                    raise
                await asyncio.sleep(busy.retry_after)


def batches(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Groups neighbouring texts up to BATCH_CHARACTERS and BATCH_TEXTS."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (size + len(text) > BATCH_CHARACTERS or len(batch) == BATCH_TEXTS):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield tuple(batch)


def sample(document: Document) -> str:
    """Returns text from the beginning of a document, without markup."""
    words = ""
    for text in document.texts:
        tokens = (
            [text] if document.format == "text" else [token for token in scan_markup(text) if isinstance(token, str)]
        )
        words += " ".join(map(html.unescape, tokens)) + "\n"
        if len(words) > SAMPLE_CHARACTERS:
            break
    return words


def translated_name(name: str, target: str) -> str:
    """Returns the name of the translated file: book.epub -> book.de.epub. Folders in the name are dropped."""
    plain = PurePosixPath(PureWindowsPath(name).name).name
    plain = "".join(character for character in plain if character.isprintable() and character not in '"/\\:<>|?*')
    stem, dot, suffix = plain.rpartition(".")
    return f"{stem[:NAME_CHARACTERS]}.{target}{dot}{suffix}" if stem else f"translated.{target}{dot}{suffix}"
