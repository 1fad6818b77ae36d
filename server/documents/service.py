"""Translates documents: reads a file, translates its texts in batches of low priority, and writes
the translated file."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from server import errors
from server.access.admission import Admission, Permit
from server.documents.document import NO_MEMORY, Workspace, add_lines, read_lines, tagged_of
from server.documents.formats import FileFormat, format_of
from server.documents.store import FileStore, disk_errors
from server.errors import AttentiveError, InvalidRequest, Overloaded, PayloadTooLarge
from server.task_process import TaskProcess
from server.translation.catalog import AUTO
from server.translation.translator import Translator
from server.translation.types import Format, TranslationRequest
from server.work_threads import FairSlots

log = logging.getLogger(__name__)
BATCH_CHARACTERS = 10_000
BATCH_TEXTS = 64
"""Limits of one request to the translator. It fills a batch of the engine, and lets other requests
in between."""
FILES_PER_JOB = 16
"""Documents in progress for each batch that is translated at the same time."""
NAME_CHARACTERS = 100
"""Longest file name without its suffix."""
UNCHANGED = "No text of the file was translated."
NO_FORMALITY = "The model knows no forms of address of this language: 'formality' has no effect."
SLOWEST_RETRY = 10
"""Longest wait in seconds between two attempts to translate a batch."""
PROCESSES = 3
"""Processes that read documents, started on demand."""
CALLER_PROCESSES = 2
"""Most processes of one caller: one is left for others."""
READER_SECONDS = 60.0
"""Longest time to read or to write a document."""


class Readers:
    """Runs tasks of `server.documents.reader_process`. Belongs to one event loop."""

    def __init__(self) -> None:
        self.processes = [TaskProcess("server.documents.reader_process") for _ in range(PROCESSES)]
        self._free = list(self.processes)
        self._slots = FairSlots(PROCESSES, CALLER_PROCESSES)

    async def run(self, task: dict[str, Any], caller: str, order: int) -> dict[str, Any]:
        """Returns the result of a task. Callers take turns; of one caller the lowest `order` is
        first. Raises PayloadTooLarge if the task needs too much time or memory."""
        async with self._slots.hold(caller, order):
            process = self._free.pop()  # the one that was used last, so that the others end
            try:
                async with asyncio.timeout(READER_SECONDS):
                    return await process.run(task)
            except TimeoutError:
                raise PayloadTooLarge("The file takes too long to read; split it.") from None
            except MemoryError:
                raise PayloadTooLarge(NO_MEMORY) from None
            finally:
                self._free.append(process)

    async def close(self) -> None:
        for process in self.processes:
            await process.close()


class TranslatedDocument(NamedTuple):
    """A translated file: its `token` in the store, and a `warning` in one sentence or ""."""

    token: str
    warning: str = ""


class ReceivedDocument(NamedTuple):
    """A document in progress. `name` is that of the translated file, `order` the number of the
    document. Once its texts have been read, `format` is theirs, `characters` their number without
    markup, and `sample` text from the beginning."""

    workspace: Workspace
    permit: Permit
    caller: str
    order: int
    name: str
    target: str
    file_format: FileFormat
    format: Format = "text"
    characters: int = 0
    sample: str = ""


class DocumentTranslator:
    """Translates files of at most `characters` each, `jobs` batches at the same time. `admission`
    limits the bytes in progress."""

    def __init__(
        self,
        translator: Translator,
        store: FileStore,
        admission: Admission,
        characters: int,
        jobs: int,
    ) -> None:
        self.store = store
        self.characters = characters
        self.readers = Readers()
        self._translator = translator
        self.admission = admission
        self._turns = FairSlots(jobs)
        self._limit = FILES_PER_JOB * jobs
        self._numbers = count()

    def cost(self, size: int) -> float:
        """Returns the units that a document of `size` bytes holds in the admission, which has room
        for FILES_PER_JOB documents a job."""
        return max(size, self.admission.lease.translations / self._limit)

    async def receive(
        self,
        content: bytes,
        name: str,
        target: str,
        caller: str,
        output: str = "",
        key: int | None = None,
    ) -> ReceivedDocument:
        """Keeps an upload on disk and reads its texts. The document holds its permit until `close`
        is called. `output` is the format of the translated file ("": the default); `key` is that of
        the request.

        Raises Overloaded if there is no room for the caller, and InvalidRequest, PayloadTooLarge or
        TextTooLong for a file that cannot be translated.
        """
        format = format_of(name, output)
        language = self._translator.catalog.target(target)
        name = translated_name(name, language, format.written_as)
        with ExitStack() as failed:
            permit = self.admission.admit(self.cost(len(content)), caller=caller, key=key)
            failed.callback(permit.release)
            workspace = await asyncio.to_thread(self.store.new_workspace, content)
            failed.callback(workspace.remove)
            order = next(self._numbers)
            upload = ReceivedDocument(workspace, permit, caller, order, name, language, format)
            document = upload._replace(**await self.run("read", upload))
            failed.pop_all()
        return document

    def close(self, document: ReceivedDocument) -> None:
        """Deletes the files of a document in progress and releases its permit."""
        document.workspace.remove()
        document.permit.release()

    async def translate(
        self,
        document: ReceivedDocument,
        request: TranslationRequest,
        patient: bool = False,
        copy: bool = True,
        progress: Callable[[int], object] | None = None,
    ) -> TranslatedDocument:
        """Translates a document with the options of `request` and keeps the new file in the store.
        `progress` receives the characters of each batch, without markup.

        Raises the errors of `Translator.translate`, but Overloaded only for the first batch, and
        not if `patient`. Unless `copy`, a document in the target language is an InvalidRequest.
        """
        may_wait, changed, workspace = patient, False, document.workspace
        async with asyncio.timeout_at(request.deadline):
            source = await self._source(document, request)
            if not copy and source.lower() == document.target.lower():
                raise InvalidRequest("Source and target language are equal.")
            for texts in batches(read_lines(workspace.texts)):
                batch = dataclasses.replace(
                    request, texts=texts, source=source, format=document.format, remember=False
                )
                async with self._turns.hold(document.caller, document.order):
                    translated = await self._translate_batch(batch, patient)
                patient = True
                changed = changed or translated != list(texts)
                with disk_errors():
                    add_lines(workspace.translations, translated)
                if progress is not None:
                    progress(sum([len(tagged_of(text, document.format).text) for text in texts]))
            await self.run("write", document)
        token = await self.store.keep(
            workspace, document.name, document.file_format.media_type, document.caller, may_wait
        )
        document.permit.release(succeeded=True)
        if not changed:
            return TranslatedDocument(token, UNCHANGED)
        ignored = request.formality and not self._translator.catalog.knows_formality(
            document.target
        )
        return TranslatedDocument(token, NO_FORMALITY if ignored else "")

    async def run(self, action: str, document: ReceivedDocument) -> dict[str, Any]:
        """Returns the result of a task of `server.documents.reader_process.perform`. Raises the
        errors of the document and of `Readers.run`."""
        task = {
            "action": action,
            "folder": str(document.workspace.folder),
            "name": "a" + document.file_format.suffix,
            "output": document.file_format.written_as,
            "target": document.target,
            "characters": self.characters,
        }
        answer = await self.readers.run(task, document.caller, document.order)
        if trace := answer.get("trace"):
            log.error("a file could not be translated", extra={"trace": trace})
        if name := answer.get("error"):
            kind: type[AttentiveError] = getattr(errors, name)
            raise kind(answer["message"])
        return answer

    async def _source(self, document: ReceivedDocument, request: TranslationRequest) -> str:
        """Returns the source language, detected once for the whole file. The target is no hint,
        because a file may already be in it."""
        if request.source.strip().lower() != AUTO or not document.characters:
            return request.source
        detect, sample = self._translator.detector.detect, document.sample
        guesses = await self._translator.work(document.caller, len(sample), detect, sample)
        return guesses[0].language

    async def _translate_batch(self, request: TranslationRequest, patient: bool) -> list[str]:
        """Translates one batch. While the server is overloaded, waits if `patient`, else raises
        Overloaded."""
        while True:
            try:
                return [
                    translation.text for translation in await self._translator.translate(request)
                ]
            except Overloaded as busy:
                if not patient:
                    raise
                await asyncio.sleep(min(busy.retry_after, SLOWEST_RETRY))


def batches(texts: Iterable[str]) -> Iterator[tuple[str, ...]]:
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


def translated_name(name: str, target: str, written_as: str = "") -> str:
    """Returns the name of the translated file: book.epub -> book.de.epub. Folders in the name are
    dropped."""
    plain = PurePosixPath(PureWindowsPath(name).name).name
    plain = re.sub(r'["/\\:<>|?*]', "", "".join(filter(str.isprintable, plain)))
    stem, dot, suffix = plain.rpartition(".")
    suffix = written_as.removeprefix(".") or suffix
    return f"{stem[:NAME_CHARACTERS] or 'translated'}.{target}{dot}{suffix}"
