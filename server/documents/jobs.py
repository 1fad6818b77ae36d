"""Translations of files in the background: a job is started, its state is polled, its result is fetched once."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, replace
from time import monotonic
from typing import Literal, Protocol

from server.documents.service import DocumentTranslator, ReceivedDocument
from server.documents.store import StoredFile
from server.errors import AttentiveError, NotFound
from server.translation.types import TranslationRequest

log = logging.getLogger(__name__)
State = Literal["translating", "done", "error"]
JOBS_LIMIT = 10_000
"""Largest number of jobs that are remembered."""
FAILED = "The file could not be translated."


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of one job. `characters` is the length of its texts, `problem` the reason of a failure in one sentence,
    and `token` that of the translated file in the store."""

    id: str
    state: State
    characters: int
    problem: str = ""
    token: str = ""


class Jobs(Protocol):
    """Translates files in the background, for clients that have a job's id and its secret key."""

    async def start(self, document: ReceivedDocument, request: TranslationRequest) -> tuple[str, str]:
        """Starts a job, which closes the document at its end. Returns its id and its key."""
        ...

    async def find(self, id: str, key: str) -> JobStatus:
        """Returns the state of a job. Raises NotFound if there is no such job or the key is not the job's key."""
        ...

    async def take(self, job: JobStatus) -> StoredFile:
        """Returns the file of a job that is done, and removes the job. Raises NotFound for everyone but the first
        caller, and ExpiredTranslation if the file is no longer kept."""
        ...

    async def close(self) -> None:
        """Stops all work of this server."""
        ...


@dataclass(frozen=True, slots=True)
class FileJob:
    """One file. `until` is the time of expiry in seconds on the monotonic clock. The result of `work` is the file's
    token in the store."""

    id: str
    key: str
    characters: int
    until: float
    work: asyncio.Future[str]

    @property
    def status(self) -> JobStatus:
        if not self.work.done():
            return JobStatus(self.id, "translating", self.characters)
        error = None if self.work.cancelled() else self.work.exception()
        if error is None and not self.work.cancelled():
            return JobStatus(self.id, "done", self.characters, token=self.work.result())
        problem = error.message if isinstance(error, AttentiveError) else FAILED
        return JobStatus(self.id, "error", self.characters, problem)


class FileJobs:
    """The jobs of one server, each remembered for at most `seconds`. The number of jobs in progress is limited by the
    places of their documents."""

    def __init__(self, documents: DocumentTranslator, seconds: float) -> None:
        self._documents = documents
        self._seconds = seconds
        self._jobs: dict[str, FileJob] = {}

    async def start(self, document: ReceivedDocument, request: TranslationRequest) -> tuple[str, str]:
        """Implements Jobs."""
        self._prune()
        task = asyncio.ensure_future(self._documents.translate(document, request, patient=True))
        task.add_done_callback(lambda _: self._documents.close(document))  # also if it is cancelled before it begins
        task.add_done_callback(log_failure)
        job = FileJob(*new_id_and_key(), document.characters, monotonic() + self._seconds, task)
        self._jobs[job.id] = job
        return job.id, job.key

    async def find(self, id: str, key: str) -> JobStatus:
        """Implements Jobs."""
        self._prune()
        job = self._jobs.get(id)
        if job is None or not secrets.compare_digest(job.key.encode(), key.encode("utf-8", "replace")):
            raise NotFound("Document not found.")
        return job.status

    async def take(self, job: JobStatus) -> StoredFile:
        """Implements Jobs."""
        if job.id not in self._jobs:
            raise NotFound("Document not found.")
        found = await self._documents.store.find(job.token)
        await self._documents.store.forget(job.token)
        self._forget(job.id)
        return replace(found, once=True)

    async def close(self) -> None:
        """Implements Jobs."""
        for id in list(self._jobs):
            self._forget(id)

    def _forget(self, id: str) -> None:
        if job := self._jobs.pop(id, None):
            job.work.cancel()

    def _prune(self) -> None:
        now = monotonic()
        for job in list(self._jobs.values()):  # oldest first
            if job.until > now and len(self._jobs) < JOBS_LIMIT:
                return
            self._forget(job.id)


def new_id_and_key() -> tuple[str, str]:
    """Returns the public id and the secret key of a new job."""
    return secrets.token_hex(16).upper(), secrets.token_hex(32).upper()


def log_failure(work: asyncio.Future[str]) -> None:
    """Logs an unexpected failure, since the job may never be polled again."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, AttentiveError):
        log.error("a file could not be translated", exc_info=error)
