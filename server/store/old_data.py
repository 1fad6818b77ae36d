"""Reads the data folder of version 0.1: keys.json, and a database each for usage, glossaries and history.

The files are read once, when the new database is made, and stay as they are, so that the earlier version can be started
again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from server.errors import SettingsError

log = logging.getLogger(__name__)
KEYS, GLOSSARIES = "keys.json", "glossaries.sqlite3"
HISTORY_SECONDS = 3_600.0
"""Time for which the translations of an old history are kept."""


def import_old_data(database: sqlite3.Connection, folder: Path) -> None:
    """Copies the old data of a folder. Raises SettingsError for keys, usage or glossaries that cannot be read, as they
    would be lost; an unreadable history is left out."""
    if (keys := folder / KEYS).exists():
        try:
            entries = json.loads(keys.read_text(encoding="utf-8"))["keys"]
            insert(database, "keys", [(entry["digest"], orjson.dumps(entry)) for entry in entries])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SettingsError(f"The key file {keys} is damaged: it was not written by `attentive keys`.") from error
    for name, copy in (("usage", copy_usage), ("glossaries", copy_glossaries)):
        if (file := folder / f"{name}.sqlite3").exists():
            try:
                copy(database, file)
            except (sqlite3.Error, ValueError) as error:
                raise SettingsError(f"--data (ATTENTIVE_DATA): {file} cannot be read: {error}.") from error
    if (file := folder / "history.sqlite3").exists():
        try:
            rows = select(file, "SELECT id, record, LENGTH(record) FROM translations ORDER BY created")
        except sqlite3.Error as error:
            log.error("the history of the earlier version cannot be read: %s", error)
            return
        expires = time.time() + HISTORY_SECONDS
        database.executemany(
            "INSERT INTO expiring (name, id, expires, bytes, value) VALUES ('history', ?, ?, ?, ?)",
            [(id, expires, size, record) for id, record, size in rows],
        )


def copy_usage(database: sqlite3.Connection, file: Path) -> None:
    """Copies the characters of each key."""
    insert(database, "usage", [(id, b"%d" % count) for id, count in select(file, "SELECT key, characters FROM usage")])


def copy_glossaries(database: sqlite3.Connection, file: Path) -> None:
    """Copies glossaries and their dictionaries."""
    dictionaries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    query = "SELECT glossary, source, target, count, characters, exact, revision, entries FROM dictionaries"
    for id, source, target, count, characters, exact, revision, entries in select(file, query):
        info = {"source": source, "target": target, "count": count, "characters": characters}
        dictionaries[id].append(info | {"exact": bool(exact), "revision": revision})
        stored = orjson.dumps({"exact": bool(exact), "entries": json.loads(entries)})
        insert(database, "glossaries:entries", [(f"{id} {source} {target}", stored)])
    for id, owner, name, created in select(file, "SELECT id, owner, name, created FROM glossaries"):
        infos = sorted(dictionaries[id], key=lambda info: (info["source"], info["target"]))
        glossary = {"id": id, "owner": owner, "name": name, "created": created, "dictionaries": infos}
        insert(database, "glossaries", [(id, orjson.dumps(glossary))])


def select(file: Path, query: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a query of another database."""
    with contextlib.closing(sqlite3.connect(file)) as old:
        return old.execute(query).fetchall()


def insert(database: sqlite3.Connection, table: str, records: Iterable[tuple[str, bytes]]) -> None:
    """Inserts records into a table."""
    database.executemany("INSERT INTO records VALUES (?, ?, ?)", [(table, id, value) for id, value in records])
