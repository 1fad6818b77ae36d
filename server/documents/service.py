"""File in, translated file out: read, translated in the gaps that short requests leave, written."""

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
"""What goes to the translator at once: enough to fill a batch, little enough that others find room between two."""
SAMPLE_CHARACTERS = 2_000
NAME_CHARACTERS = 100


class DocumentTranslator:
    """Translates files. At most `jobs` at the same time, each of at most `characters`."""

    def __init__(self, translator: Translator, store: FileStore, characters: int, jobs: int) -> None:
        self.store = store
        self.characters = characters
        self._translator = translator
        self._admission = Admission(jobs)
        self._reading = asyncio.Semaphore(jobs)

    async def read(self, content: bytes, name: str, target: str) -> tuple[FileFormat, Document]:
        """The document in a file. Raises UnsupportedMediaType, InvalidRequest, PayloadTooLarge or TextTooLong."""
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
        """The file with its texts translated as `request` says, whose own texts are ignored.

        Raises what the translator raises. Where there is no room it waits if `patient`, and in the middle of a file in
        any case.
        """
        async with time_limit(request.deadline):
            with ExitStack() as place:
                await self._enter(place, patient)
                source = await self._source(document, request)
                translated: list[str] = []
                for texts in batches(document.texts):
                    step = dataclasses.replace(
                        request, texts=texts, source=source, format=document.format, remember=False
                    )
                    translated += await self._step(step, patient or bool(translated))
                return await asyncio.to_thread(document.write, translated)

    async def _enter(self, place: ExitStack, patient: bool) -> None:
        """Takes one of the places for files. Raises Overloaded where there is none, unless it is to wait."""
        while True:
            try:
                place.enter_context(self._admission.admit(1))
                return
            except Overloaded as busy:
                if not patient:
                    raise
                await asyncio.sleep(busy.retry_after)

    async def _source(self, document: Document, request: TranslationRequest) -> str:
        """The source language, found out once for the whole file."""
        if request.source.strip().lower() != AUTO or not document.texts:
            return request.source
        guesses = await asyncio.to_thread(self._translator.detect, sample(document))
        if not guesses:
            raise InvalidRequest("The language cannot be detected here; name it in source.")
        return guesses[0].language

    async def _step(self, request: TranslationRequest, patient: bool) -> list[str]:
        while True:
            try:
                return [translation.text for translation in await self._translator.translate(request)]
            except Overloaded as busy:
                if not patient:
                    raise
                await asyncio.sleep(busy.retry_after)


def batches(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Neighbours up to the sizes above."""
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
    """Words from the beginning, without markup."""
    words = ""
    for text in document.texts:
        tokens = [text] if document.format == "text" else [token for token in scan_markup(text) if isinstance(token, str)]
        words += " ".join(map(html.unescape, tokens)) + "\n"
        if len(words) > SAMPLE_CHARACTERS:
            break
    return words


def translated_name(name: str, target: str) -> str:
    """book.epub -> book.de.epub; whatever path came with the name is dropped."""
    plain = PurePosixPath(PureWindowsPath(name).name).name
    plain = "".join(character for character in plain if character.isprintable() and character not in '"/\\:<>|?*')
    stem, dot, suffix = plain.rpartition(".")
    return f"{stem[:NAME_CHARACTERS]}.{target}{dot}{suffix}" if stem else f"translated.{target}{dot}{suffix}"
