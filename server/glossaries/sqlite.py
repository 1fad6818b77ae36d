"""Glossaries in SQLite, in a file of the data folder beside the API keys, or in memory without a data folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from server.errors import SettingsError, Unavailable
from server.glossaries.types import Change, Dictionary, DictionaryInfo, Glossary

log = logging.getLogger(__name__)
FILE_NAME = "glossaries.sqlite3"
LOCK_SECONDS = 5.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS glossaries (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dictionaries (
    glossary TEXT NOT NULL REFERENCES glossaries (id) ON DELETE CASCADE,
    source TEXT NOT NULL, target TEXT NOT NULL, exact INTEGER NOT NULL, revision INTEGER NOT NULL,
    count INTEGER NOT NULL, characters INTEGER NOT NULL, entries TEXT NOT NULL,
    PRIMARY KEY (glossary, source, target)
);
CREATE INDEX IF NOT EXISTS by_owner ON glossaries (owner);
"""


class SQLiteGlossaries:
    """A GlossaryStore of one file; several processes may use it. Raises SettingsError where it cannot be opened."""

    def __init__(self, folder: Path | None) -> None:
        self._lock = threading.RLock()
        path = ":memory:"
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / FILE_NAME
                file.touch(mode=0o600)
                path = str(file)
            # One thread at a time uses the connection, and not always the same.
            self._database = sqlite3.connect(path, timeout=LOCK_SECONDS, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA foreign_keys=ON")
            self._database.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SettingsError(
                f"--data (ATTENTIVE_DATA): the glossaries in {str(folder)!r} cannot be opened: {reason}."
            ) from None

    async def find(self, id: str) -> Glossary | None:
        """Returns a glossary, or None."""
        found = await asyncio.to_thread(self._select, "SELECT * FROM glossaries WHERE id = ?", id)
        return next(iter(found), None)

    async def of(self, owners: Sequence[str] | None = None) -> list[Glossary]:
        """Returns the glossaries of some owners, or of all of them, oldest first."""
        return await asyncio.to_thread(self._of, owners)

    async def dictionary(self, id: str, source: str, target: str) -> Dictionary | None:
        """Returns the entries of a language pair, or None."""
        return await asyncio.to_thread(self._dictionary, id, source, target)

    async def write(self, owner: str, make: Callable[[Sequence[Glossary]], Change]) -> None:
        """Stores a change as one step; no other process writes meanwhile. Raises Unavailable where the file cannot be
        written."""
        await asyncio.to_thread(self._write, owner, make)

    def close(self) -> None:
        """Closes the database."""
        with self._lock:
            self._database.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """`with`: all changes of the block are stored, or none. Raises Unavailable where the file cannot be written."""
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
            except BaseException as error:
                if self._database.in_transaction:  # a full disk may have ended it
                    self._database.execute("ROLLBACK")
                if not isinstance(error, sqlite3.OperationalError):
                    raise
                log.warning("the glossaries cannot be stored: %s", error)
                raise Unavailable("The glossaries cannot be changed: the disk is full or not writable.", 60) from error

    def _write(self, owner: str, make: Callable[[Sequence[Glossary]], Change]) -> None:
        with self._transaction():
            change = make(self._of([owner]))
            if (glossary := change.glossary) is None:
                self._database.execute("DELETE FROM glossaries WHERE id = ?", (change.id,))
                return
            row = (glossary.id, glossary.owner, glossary.name, glossary.created)
            self._database.execute(
                "INSERT INTO glossaries VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name", row
            )
            kept = {(one.source, one.target): one for one in glossary.dictionaries}
            for source, target in {(one.source, one.target) for one in self._dictionaries(change.id)} - kept.keys():
                self._database.execute(
                    "DELETE FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
                    (change.id, source, target),
                )
            for dictionary in change.dictionaries:
                self._put(change.id, dictionary, kept[dictionary.source, dictionary.target])

    def _put(self, id: str, dictionary: Dictionary, info: DictionaryInfo) -> None:
        entries = json.dumps(list(dictionary.entries.items()), ensure_ascii=False)
        row = (id, info.source, info.target, info.exact, info.revision, info.count, info.characters, entries)
        self._database.execute(
            "INSERT OR REPLACE INTO dictionaries (glossary, source, target, exact, revision, count, characters, "
            "entries) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )

    def _of(self, owners: Sequence[str] | None) -> list[Glossary]:
        if owners is None:
            return self._select("SELECT * FROM glossaries ORDER BY created, id")
        found = [one for owner in owners for one in self._select("SELECT * FROM glossaries WHERE owner = ?", owner)]
        return sorted(found, key=lambda one: (one.created, one.id))

    def _dictionary(self, id: str, source: str, target: str) -> Dictionary | None:
        with self._lock:
            row = self._database.execute(
                "SELECT entries, exact FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
                (id, source, target),
            ).fetchone()
        return Dictionary(source, target, dict(json.loads(row[0])), bool(row[1])) if row else None

    def _select(self, query: str, *values: str) -> list[Glossary]:
        with self._lock:
            rows = self._database.execute(query, values).fetchall()
            return [Glossary(id, owner, name, created, self._dictionaries(id)) for id, owner, name, created in rows]

    def _dictionaries(self, id: str) -> tuple[DictionaryInfo, ...]:
        rows = self._database.execute(
            "SELECT source, target, count, characters, exact, revision FROM dictionaries WHERE glossary = ? "
            "ORDER BY source, target",
            (id,),
        )
        return tuple(
            [
                DictionaryInfo(source, target, count, characters, bool(exact), revision)
                for source, target, count, characters, exact, revision in rows
            ]
        )
