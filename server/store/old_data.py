"""Reads the data folder of version 0.1: keys.json, and a database each for usage and glossaries.

The files are read once, when the new database is made, and stay as they are, so that the earlier
version can be started again.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from server.errors import SettingsError

KEYS, USAGE, GLOSSARIES = "keys.json", "usage.sqlite3", "glossaries.sqlite3"
Record = tuple[str, str, bytes]
"""Table, id and value."""


def import_old_data(database: sqlite3.Connection, folder: Path) -> None:
    """Copies the old data of a folder. Raises SettingsError for files that cannot be read, as their
    contents would be lost."""
    for name, read in ((KEYS, old_keys), (USAGE, old_usage), (GLOSSARIES, old_glossaries)):
        if (file := folder / name).exists():
            try:
                database.executemany("INSERT INTO records VALUES (?, ?, ?)", list(read(file)))
            except (OSError, ValueError, TypeError, KeyError, sqlite3.Error) as error:
                raise SettingsError(
                    f"--data (ATTENTIVE_DATA): {file} cannot be read: {error!r}."
                ) from error


def old_keys(file: Path) -> Iterator[Record]:
    """Yields the API keys."""
    for entry in json.loads(file.read_text(encoding="utf-8"))["keys"]:
        yield "keys", entry["digest"], orjson.dumps(entry)


def old_usage(file: Path) -> Iterator[Record]:
    """Yields the characters of each key."""
    for id, count in select(file, "SELECT key, characters FROM usage"):
        yield "usage", id, b"%d" % count


def old_glossaries(file: Path) -> Iterator[Record]:
    """Yields the glossaries and the entries of their dictionaries."""
    query = (
        "SELECT source, target, count, characters, exact, revision, entries, glossary FROM "
        "dictionaries ORDER BY 1, 2"
    )
    dictionaries = select(file, query)
    for id, owner, name, created in select(file, "SELECT id, owner, name, created FROM glossaries"):
        infos = []
        for source, target, count, characters, exact, revision, entries, glossary in dictionaries:
            if glossary == id:
                info = {
                    "source": source,
                    "target": target,
                    "count": count,
                    "characters": characters,
                }
                infos.append(info | {"exact": bool(exact), "revision": revision})
                stored = {"exact": bool(exact), "entries": json.loads(entries)}
                yield "glossaries:entries", f"{id} {source} {target}", orjson.dumps(stored)
        described = {
            "id": id,
            "owner": owner,
            "name": name,
            "created": created,
            "dictionaries": infos,
        }
        yield "glossaries", id, orjson.dumps(described)


def select(file: Path, query: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a query of another database."""
    with contextlib.closing(sqlite3.connect(file)) as old:
        return old.execute(query).fetchall()
