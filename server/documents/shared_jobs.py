"""Translations of files in the background, shared by the servers of one `--state redis://`.

A job and its upload are in Redis before it is accepted. The server that works on a job holds a lease, which it renews. If
it stops, the lease expires and another server takes the job up from the upload.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import replace
from time import monotonic
from typing import Any

from server.documents.job_record import deserialize, serialize
from server.documents.jobs import FAILED, JobStatus, new_id_and_key
from server.documents.service import DocumentTranslator, ReceivedDocument
from server.documents.shared_files import PREFIX, SharedFiles
from server.documents.shared_scripts import CLAIM, FINISH, JOB, OPEN, RELEASE, RENEW, START, TAKE
from server.documents.store import StoredFile
from server.errors import AttentiveError, NotFound, Overloaded, StateUnreachable
from server.store.beats import BEAT_SECONDS
from server.store.redis import RedisStore
from server.translation.types import TranslationRequest

log = logging.getLogger(__name__)
LEASE_SECONDS = 10.0
"""Another server takes a job up if its own has not renewed the lease for this time."""
ATTEMPTS = 3
"""Servers that may stop while they work on a job, before it is reported as failed."""
BUSY_SECONDS = 5.0
"""Time after which a job that no server had a place for is offered again."""
STOPPED = "The servers that translated this file stopped; send it again."
GONE = "The uploaded file is no longer kept; send it again."


class SharedFileJobs:
    """Jobs in Redis, each remembered for `seconds` after its last change. A job has `timeout` seconds on each server.
    This server works on at most `most` of them, and takes up those of others while it is `ready`."""

    def __init__(
        self,
        state: RedisStore,
        documents: DocumentTranslator,
        files: SharedFiles,
        seconds: float,
        timeout: float,
        most: int,
        ready: Callable[[], bool],
    ) -> None:
        self._state = state
        self._documents = documents
        self._files = files
        self._life = round(1000 * seconds)
        self._timeout, self._most = timeout, most
        self._ready = ready
        self._server = secrets.token_hex(8)
        self._working: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        state.at_every_beat(self._beat)

    async def start(self, document: ReceivedDocument, request: TranslationRequest) -> tuple[str, str]:
        """Implements Jobs. Raises StateUnreachable."""
        id, key = new_id_and_key()
        upload = secrets.token_urlsafe(24)
        await self._files.put(upload, document.workspace.upload, self._life / 1000)
        await self._state.evaluate(
            START, [JOB + id, OPEN], id, self._server, _lease(), self._life, _digest(key), document.characters, upload,
            serialize(document, request),
        )  # fmt: skip
        self._begin(id, self._translate(id, upload, document, request)).add_done_callback(
            lambda _: self._documents.close(document)  # also if it is cancelled before it begins
        )
        return id, key

    async def find(self, id: str, key: str) -> JobStatus:
        """Implements Jobs. Raises StateUnreachable."""
        names = ("digest", "state", "characters", "problem", "token")
        values = await self._state.execute("HMGET", JOB + id, *names)
        found = {name: (value or b"").decode() for name, value in zip(names, values, strict=True)}
        if not secrets.compare_digest(found["digest"], _digest(key)):
            raise NotFound("Document not found.")
        state: Any = found["state"]
        return JobStatus(id, state, int(found["characters"]), found["problem"], found["token"])

    async def take(self, job: JobStatus) -> StoredFile:
        """Implements Jobs. Raises StateUnreachable."""
        store = self._documents.store
        found = await store.find(job.token)  # a copy, before the job is removed: a failure here loses nothing
        try:
            if not await self._state.evaluate(TAKE, [JOB + job.id]):  # another request has just taken it
                raise NotFound("Document not found.")
        except BaseException:
            found.path.unlink(missing_ok=True)
            raise
        with contextlib.suppress(StateUnreachable):  # it expires
            await store.forget(job.token)
        return found

    async def close(self) -> None:
        """Stops the work of this server and offers its jobs to the others."""
        self._closed = True
        working = dict(self._working)
        for task in working.values():
            task.cancel()
        await asyncio.gather(*working.values(), return_exceptions=True)
        for id in working:
            with contextlib.suppress(StateUnreachable):  # the lease expires
                await self._state.evaluate(RELEASE, [JOB + id, OPEN], id, self._server, 0)

    # -- the work of this server ---------------------------------------------------------------------------------------

    def _begin(self, id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._working[id] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._working.pop(id, None))
        return task

    async def _beat(self) -> None:
        """Renews the leases of this server, stops the work on jobs that it has lost, and takes up one of another."""
        if self._closed:
            return
        if ids := list(self._working):
            for id in await self._state.evaluate(RENEW, [OPEN], JOB, self._server, _lease(), self._life, *ids):
                if task := self._working.get(id.decode()):
                    task.cancel()
        if len(self._working) < self._most and self._ready():
            claimed = await self._state.evaluate(CLAIM, [OPEN], JOB, self._server, _lease(), self._life, PREFIX)
            if claimed and (id := claimed.decode()) not in self._working:
                self._begin(id, self._continue(id))

    async def _continue(self, id: str) -> None:
        """Works on a job whose server has stopped."""
        try:
            values = await self._state.execute("HMGET", JOB + id, "attempts", "upload", "record")
            attempts, upload, record = int(values[0]), values[1].decode(), values[2]
            content = await self._files.read(upload)
            log.warning("a file is translated again, because its server has stopped", extra={"attempt": attempts})
            if attempts > ATTEMPTS or content is None:
                await self._finish(id, upload, "error", "problem", STOPPED if content is not None else GONE)
                return
            job = deserialize(record)
            request = replace(job.request, deadline=monotonic() + self._timeout)
            document = await self._documents.receive(content, job.name, request.target, request.client)
        except (Overloaded, StateUnreachable):  # the next server has room for it, or Redis is back
            with contextlib.suppress(StateUnreachable):
                await self._state.evaluate(RELEASE, [JOB + id, OPEN], id, self._server, round(1000 * BUSY_SECONDS))
            return
        except AttentiveError as error:
            await self._finish(id, upload, "error", "problem", error.message)
            return
        await self._translate(id, upload, document, request)

    async def _translate(self, id: str, upload: str, document: ReceivedDocument, request: TranslationRequest) -> None:
        """Translates a document and stores the outcome."""
        try:
            outcome = ("done", "token", await self._documents.translate(document, request, patient=True))
        except AttentiveError as error:
            outcome = ("error", "problem", error.message)
        except Exception:  # the job's client learns of it by its state
            log.exception("a file could not be translated")
            outcome = ("error", "problem", FAILED)
        finally:
            self._documents.close(document)
        await self._finish(id, upload, *outcome)

    async def _finish(self, id: str, upload: str, state: str, name: str, value: str) -> None:
        """Stores the outcome of a job; waits while Redis cannot be reached. If another server has the job now, its
        outcome counts."""
        arguments = (id, self._server, self._life, state, name, value)
        while True:
            try:
                kept = await self._state.evaluate(FINISH, [JOB + id, OPEN], *arguments)
                await self._files.remove(*([upload] if kept else [value] if state == "done" else []))
                return
            except StateUnreachable:
                await asyncio.sleep(BEAT_SECONDS)


def _lease() -> int:
    return round(1000 * LEASE_SECONDS)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
