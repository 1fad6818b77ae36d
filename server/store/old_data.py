"""Converts the data folder of version 0.1: `python -m server.store.old_data FOLDER`.

The old files stay, so that version 0.1 can be started again.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from server.errors import SettingsError
from server.store.sqlite import FILE_NAME, OLD_FILES, connect, create_tables

Record = tuple[str, str, bytes]
"""Table, id and value."""


def convert(folder: Path) -> None:
    """Makes the database from the old data of a folder. Raises SettingsError for files that cannot
    be read, and for a folder without old data or with a database."""
    file = folder / FILE_NAME
    if not any((folder / name).exists() for name in OLD_FILES):
        raise SettingsError(f"{str(folder)!r} has no data of version 0.1.")
    file.touch(mode=0o600)
    with contextlib.closing(connect(str(file))) as database, database:
        database.execute("BEGIN IMMEDIATE")
        if database.execute("PRAGMA user_version").fetchone()[0]:
            raise SettingsError(f"{str(file)!r} exists: the data was converted before.")
        create_tables(database)
        for name, read in zip(OLD_FILES, (old_keys, old_glossaries, old_usage), strict=True):
            if (old := folder / name).exists():
                try:
                    database.executemany("INSERT INTO records VALUES (?, ?, ?)", list(read(old)))
                except (OSError, ValueError, TypeError, KeyError, sqlite3.Error) as error:
                    raise SettingsError(f"{old} cannot be read: {error!r}.") from error


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


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m server.store.old_data FOLDER")
    try:
        convert(Path(sys.argv[1]))
    except SettingsError as error:
        sys.exit(str(error))
