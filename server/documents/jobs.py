"""Translations of files in the background: a job is started, its state is polled, its result is fetched once."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal

from server.errors import AttentiveError, NotFound

log = logging.getLogger(__name__)
State = Literal["translating", "done", "error"]
JOBS_LIMIT = 10_000
"""Largest number of jobs that are remembered."""


@dataclass(frozen=True, slots=True)
class FileJob:
    """One file. `key` is the secret returned to the client that uploaded it. `characters` is the length of its texts,
    `until` the time of expiry in seconds on the monotonic clock. The result of `work` is the file's token in the
    store."""

    id: str
    key: str
    characters: int
    until: float
    work: asyncio.Future[str]

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
    """Remembers jobs, each for at most `seconds`. The number of jobs in progress is limited by the places of their
    documents."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._jobs: dict[str, FileJob] = {}

    def start(self, work: Coroutine[Any, Any, str], characters: int, ended: Callable[[], None]) -> FileJob:
        """Starts a job. `ended` is called when it is done, has failed or is cancelled."""
        self._prune()
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: ended())
        task.add_done_callback(log_failure)
        job = FileJob(
            secrets.token_hex(16).upper(), secrets.token_hex(32).upper(), characters, monotonic() + self._seconds, task
        )
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
        for job in list(self._jobs.values()):  # oldest first
            if job.until > now and len(self._jobs) < JOBS_LIMIT:
                return
            self.forget(job)


def log_failure(work: asyncio.Future[str]) -> None:
    """Logs an unexpected failure, since the job may never be polled again."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, AttentiveError):
        log.error("a file could not be translated", exc_info=error)
