"""Translates files in the background: a job is started, its state is polled, its result is fetched
once. A job stays on the server that accepted it; every server can read its state in the store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
from typing import Any

import orjson

from server.documents.service import DocumentTranslator, ReceivedDocument
from server.documents.store import StoredFile
from server.errors import TIME_PASSED, AttentiveError, NotFound, StateUnreachable
from server.kept import forget_soon
from server.store.interface import Store
from server.store.keys import digest
from server.translation.types import TranslationRequest

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 15.0
"""A server without a heartbeat for this time has stopped."""
FAILED = "The file could not be translated."
STOPPED = "The server that translated this file has stopped; send it again."
ID = re.compile("[0-9A-F]{32}")
Record = dict[str, Any]
"""The state of a job: its `id`, the `digest` (SHA-256) of its key, its `server`, the number of
`characters`, its `state`, and the `problem` of a failure, or the `token` of the translated file and
a `warning`."""


class FileJobs:
    """The jobs of one server. `records` keeps their states for `seconds` after a change. The
    admission of documents limits their number. All methods raise StateUnreachable."""

    def __init__(self, documents: DocumentTranslator, records: Store, seconds: float) -> None:
        self._documents = documents
        self._records = records
        self._seconds = seconds
        self._server = secrets.token_hex(8)
        self._working: dict[str, tuple[Record, asyncio.Task[None]]] = {}

    async def beat(self) -> None:
        """Stores the heartbeat of this server if it has jobs."""
        if self._working:
            await self._store_heartbeat()

    async def start(
        self, document: ReceivedDocument, request: TranslationRequest
    ) -> tuple[str, str]:
        """Starts a job, which closes the document at its end. Returns its public id and its secret
        key."""
        id, key = secrets.token_hex(16).upper(), secrets.token_hex(32).upper()
        record: Record = {
            "id": id,
            "digest": digest(key),
            "server": self._server,
            "state": "translating",
            "characters": document.characters,
        }
        await self._store_heartbeat()
        await self._records.put(*self._stored(record))
        task = asyncio.create_task(self._translate(record, document, request))
        self._working[id] = (record, task)
        task.add_done_callback(lambda _: self._working.pop(id, None))
        # also if it is cancelled before it begins
        task.add_done_callback(lambda _: self._documents.close(document))
        if request.storage == "none":
            task.add_done_callback(lambda _: forget_soon())
        return id, key

    async def find(self, id: str, key: str) -> Record:
        """Returns the state of a job. Raises NotFound for an unknown id or another key."""
        record = await self._find(id)
        if record is None or not secrets.compare_digest(record["digest"], digest(key)):
            raise NotFound("Document not found.")
        if record["state"] != "translating" or await self._in_progress(record):
            return record
        # It ended after the record was read, or its server has stopped.
        record = await self._find(id) or record
        return stopped(record) if record["state"] == "translating" else record

    async def take(self, job: Record) -> StoredFile:
        """Returns the file of a job that is done, and removes the job. Raises NotFound after the
        first call, and ExpiredTranslation if the file is no longer kept."""
        store = self._documents.store
        # before the job is removed: a failure here loses nothing
        file = await store.find(job["token"])
        if not await self._records.remove("jobs", job["id"]):  # another request has just taken it
            raise NotFound("Document not found.")
        with contextlib.suppress(StateUnreachable):  # it expires
            await store.forget(job["token"])
        return file._replace(once=True)

    async def close(self) -> None:
        """Stops the jobs of this server and stores that they have stopped."""
        working = list(self._working.values())
        for _, task in working:
            task.cancel()
        await asyncio.gather(*[task for _, task in working], return_exceptions=True)
        for record, task in working:
            if task.cancelled():
                with contextlib.suppress(StateUnreachable):  # its heartbeat ends
                    await self._records.put(*self._stored(stopped(record)))

    async def _find(self, id: str) -> Record | None:
        data = await self._records.find("jobs", id) if ID.fullmatch(id) else None
        return None if data is None else orjson.loads(data)

    def _stored(self, record: Record) -> tuple[str, str, bytes, float]:
        return "jobs", record["id"], orjson.dumps(record), self._seconds

    async def _store_heartbeat(self) -> None:
        await self._records.put("servers", self._server, b"", HEARTBEAT_SECONDS)

    async def _in_progress(self, record: Record) -> bool:
        if record["server"] == self._server:
            return record["id"] in self._working
        return await self._records.find("servers", record["server"]) is not None

    async def _translate(
        self, record: Record, document: ReceivedDocument, request: TranslationRequest
    ) -> None:
        """Translates a document and stores the outcome; waits while Redis cannot be reached."""
        try:
            made = await self._documents.translate(document, request, patient=True, copy=False)
            record |= {"state": "done", "token": made.token, "warning": made.warning}
        except AttentiveError as error:
            record |= {"state": "error", "problem": error.message}
        except TimeoutError:
            record |= {"state": "error", "problem": TIME_PASSED}
        except Exception:  # the job's client learns of it by its state
            log.exception("a file could not be translated")
            record |= {"state": "error", "problem": FAILED}
        await self._records.put_patiently(*self._stored(record))


def stopped(record: Record) -> Record:
    """Returns the state of a job whose server has stopped."""
    return record | {"state": "error", "problem": STOPPED}
