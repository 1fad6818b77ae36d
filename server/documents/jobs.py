"""Translations of files in the background: a job is started, its state is polled, its result is fetched once.

A job stays on the server that accepted it. Its record is in memory, or in Redis, where every server finds it. If the
server of a job stops or is killed, the job's state says that the file must be sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import logging
import re
import secrets
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Literal, Protocol

import orjson

from server.documents.service import DocumentTranslator, ReceivedDocument
from server.documents.store import StoredFile
from server.errors import AttentiveError, NotFound, StateUnreachable
from server.store.beats import BEAT_SECONDS
from server.translation.types import TranslationRequest

if TYPE_CHECKING:
    from server.store.redis import RedisStore

log = logging.getLogger(__name__)
State = Literal["translating", "done", "error"]
JOBS_LIMIT = 10_000
"""Largest number of jobs that a server remembers in memory."""
HEARTBEAT_SECONDS = 15.0
"""A server that has not been in touch with Redis for this time has stopped."""
FAILED = "The file could not be translated."
STOPPED = "The server that translated this file has stopped; send it again."
ID = re.compile("[0-9A-F]{32}")


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The state of one job. `digest` is the SHA-256 of its key, `server` the server that works on it, `characters` the
    length of its texts, `problem` the reason of a failure in one sentence, and `token` that of the translated file in the
    store."""

    id: str
    digest: str
    server: str
    characters: int
    state: State = "translating"
    problem: str = ""
    token: str = ""


class JobRecords(Protocol):
    """Keeps the records of jobs. Raises StateUnreachable where they are in Redis and it cannot be reached."""

    async def find(self, id: str) -> JobRecord | None:
        """Returns a record, or None."""
        ...

    async def put(self, record: JobRecord) -> None:
        """Stores a record."""
        ...

    async def remove(self, id: str) -> bool:
        """Removes a record, and returns True for one caller only."""
        ...

    async def alive(self, server: str) -> bool:
        """Returns whether another server is running."""
        ...


class OwnRecords:
    """The records of one server in memory, each for `seconds` after its last change."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._records: dict[str, tuple[float, JobRecord]] = {}

    async def find(self, id: str) -> JobRecord | None:
        """Implements JobRecords."""
        self._prune()
        entry = self._records.get(id)
        return entry[1] if entry else None

    async def put(self, record: JobRecord) -> None:
        """Implements JobRecords."""
        self._records.pop(record.id, None)
        self._records[record.id] = (monotonic() + self._seconds, record)
        self._prune()

    async def remove(self, id: str) -> bool:
        """Implements JobRecords."""
        return self._records.pop(id, None) is not None

    async def alive(self, server: str) -> bool:
        """Implements JobRecords."""
        return False

    def _prune(self) -> None:
        now = monotonic()
        for id, (until, _) in list(self._records.items()):  # oldest first
            if until > now and len(self._records) <= JOBS_LIMIT:
                return
            del self._records[id]


class SharedRecords:
    """The records of the jobs of all servers in Redis, each for `seconds` after its last change."""

    def __init__(self, store: RedisStore, seconds: float) -> None:
        self._store = store
        self._seconds = seconds

    async def find(self, id: str) -> JobRecord | None:
        """Implements JobRecords."""
        data = await self._store.find("jobs", id) if ID.fullmatch(id) else None
        return None if data is None else JobRecord(**orjson.loads(data))

    async def put(self, record: JobRecord) -> None:
        """Implements JobRecords."""
        await self._store.put("jobs", record.id, orjson.dumps(record), self._seconds)

    async def remove(self, id: str) -> bool:
        """Implements JobRecords."""
        return await self._store.remove("jobs", id)

    async def alive(self, server: str) -> bool:
        """Implements JobRecords."""
        return await self._store.find("servers", server) is not None

    def beat(self, server: str) -> None:
        """Says at every beat that a server is running."""

        async def task() -> None:
            await self._store.put("servers", server, b"", HEARTBEAT_SECONDS)

        self._store.at_every_beat(task)


class FileJobs:
    """The jobs of one server, for clients that have a job's id and its secret key. The number of jobs in progress is
    limited by the places of their documents. All methods raise StateUnreachable where the records are in Redis and it
    cannot be reached."""

    def __init__(self, documents: DocumentTranslator, records: JobRecords) -> None:
        self._documents = documents
        self._records = records
        self._server = secrets.token_hex(8)
        self._working: dict[str, tuple[JobRecord, asyncio.Task[None]]] = {}
        if isinstance(records, SharedRecords):
            records.beat(self._server)

    async def start(self, document: ReceivedDocument, request: TranslationRequest) -> tuple[str, str]:
        """Starts a job, which closes the document at its end. Returns its public id and its secret key."""
        id, key = secrets.token_hex(16).upper(), secrets.token_hex(32).upper()
        record = JobRecord(id, digest(key), self._server, document.characters)
        await self._records.put(record)
        task = asyncio.create_task(self._translate(record, document, request))
        self._working[id] = (record, task)
        task.add_done_callback(lambda _: self._working.pop(id, None))
        task.add_done_callback(lambda _: self._documents.close(document))  # also if it is cancelled before it begins
        return id, key

    async def find(self, id: str, key: str) -> JobRecord:
        """Returns the state of a job. Raises NotFound if there is no such job or the key is not the job's key."""
        record = await self._records.find(id)
        if record is None or not secrets.compare_digest(record.digest, digest(key)):
            raise NotFound("Document not found.")
        if record.state != "translating" or await self._in_progress(record):
            return record
        # It ended after the record was read, or its server has stopped.
        record = await self._records.find(id) or record
        if record.state == "translating":
            return dataclasses.replace(record, state="error", problem=STOPPED)
        return record

    async def take(self, job: JobRecord) -> StoredFile:
        """Returns the file of a job that is done, and removes the job. Raises NotFound for everyone but the first caller,
        and ExpiredTranslation if the file is no longer kept."""
        store = self._documents.store
        file = await store.find(job.token)  # before the job is removed: a failure here loses nothing
        try:
            if not await self._records.remove(job.id):  # another request has just taken it
                raise NotFound("Document not found.")
        except BaseException:
            if file.once:  # a copy
                file.path.unlink(missing_ok=True)
            raise
        with contextlib.suppress(StateUnreachable):  # it expires
            await store.forget(job.token)
        return dataclasses.replace(file, once=True)

    async def close(self) -> None:
        """Stops all work of this server, and says so in the records of its jobs."""
        working = list(self._working.values())
        for _, task in working:
            task.cancel()
        await asyncio.gather(*[task for _, task in working], return_exceptions=True)
        for record, task in working:
            if task.cancelled():
                with contextlib.suppress(StateUnreachable):  # its heartbeat ends
                    await self._records.put(dataclasses.replace(record, state="error", problem=STOPPED))

    async def _in_progress(self, record: JobRecord) -> bool:
        return record.id in self._working if record.server == self._server else await self._records.alive(record.server)

    async def _translate(self, record: JobRecord, document: ReceivedDocument, request: TranslationRequest) -> None:
        """Translates a document and stores the outcome; waits while Redis cannot be reached."""
        try:
            token = await self._documents.translate(document, request, patient=True)
            record = dataclasses.replace(record, state="done", token=token)
        except AttentiveError as error:
            record = dataclasses.replace(record, state="error", problem=error.message)
        except Exception:  # the job's client learns of it by its state
            log.exception("a file could not be translated")
            record = dataclasses.replace(record, state="error", problem=FAILED)
        while True:
            try:
                await self._records.put(record)
                return
            except StateUnreachable:
                await asyncio.sleep(BEAT_SECONDS)


def digest(key: str) -> str:
    """Returns the SHA-256 of a key in hexadecimal."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
