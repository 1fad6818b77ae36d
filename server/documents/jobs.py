"""Translations of files in the background: a job is started, its state is polled, its result is fetched once."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal

from server.errors import AttentiveError, NotFound, Overloaded

log = logging.getLogger(__name__)
State = Literal["translating", "done", "error"]


@dataclass(frozen=True, slots=True)
class FileJob:
    """One file. `key` is the secret returned to the client that uploaded it. `characters` is the length of its texts,
    `until` the time of expiry in seconds on the monotonic clock."""

    id: str
    key: str
    name: str
    media_type: str
    characters: int
    until: float
    work: asyncio.Future[bytes]

    @property
    def state(self) -> State:
        if not self.work.done():
            return "translating"
        return "error" if self.work.cancelled() or self.work.exception() else "done"

    @property
    def problem(self) -> str:
        """The reason of the failure in one sentence."""
        error = None if self.work.cancelled() else self.work.exception()
        return error.message if isinstance(error, AttentiveError) else "The file could not be translated."


class FileJobs:
    """Keeps at most `limit` jobs, running or waiting to be fetched, each for at most `seconds`."""

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._jobs: dict[str, FileJob] = {}

    def start(self, work: Coroutine[Any, Any, bytes], name: str, media_type: str, characters: int) -> FileJob:
        """Starts a job. Raises Overloaded if there are `limit` jobs already."""
        self._prune()
        if len(self._jobs) >= self._limit:
            work.close()
            raise Overloaded("Too many files are waiting; fetch yours, or try again later.", 10)
        task = asyncio.ensure_future(work)
        task.add_done_callback(log_failure)
        job = FileJob(
            secrets.token_hex(16).upper(), secrets.token_hex(32).upper(), name, media_type, characters,
            monotonic() + self._seconds, task,
        )  # fmt: skip
        self._jobs[job.id] = job
        return job

    def find(self, id: str, key: str) -> FileJob:
        """Returns a job. Raises NotFound if there is no such job or the key is not the job's key."""
        self._prune()
        job = self._jobs.get(id)
        if job is None or not secrets.compare_digest(job.key.encode(), key.encode("utf-8", "replace")):
            raise NotFound("Document not found.")
        return job

    def forget(self, job: FileJob) -> None:
        """Cancels and removes a job."""
        job.work.cancel()
        self._jobs.pop(job.id, None)

    def close(self) -> None:
        """Cancels and removes all jobs."""
        for job in list(self._jobs.values()):
            self.forget(job)

    def _prune(self) -> None:
        now = monotonic()
        for job in list(self._jobs.values()):
            if job.until <= now:
                self.forget(job)


def log_failure(work: asyncio.Future[bytes]) -> None:
    """Logs an unexpected failure, since the job may never be polled again."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, AttentiveError):
        log.error("a file could not be translated", exc_info=error)
