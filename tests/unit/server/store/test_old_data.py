"""A data folder of version 0.1 is read: keys, usage and glossaries."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from server.errors import SettingsError
from server.glossaries.glossaries import EVERYONE, Glossaries
from server.glossaries.types import Dictionary
from server.store.keys import Keys
from server.store.sqlite import SQLiteStore
from server.store.usage import Usage
from tests.support.servers.live import ROOT

OLD = ROOT / "tests" / "fixtures" / "data_folder_0_1"
SECRET, REVOKED = "atk_86nFvxWZxGTKXiNGEmh_48ExrVAQJJsZwioQ6zcoscM", "atk_dRBHXLZVRJJ6QkmRcpKPJ5thg-DEGgGG4y9_VJMTEHs"
KEY, PRODUCTS, SHARED = "731f9244", "5aab847341e6a37dd750d1a987c1fd68", "4595faf7fc5902bbf2ee3d658a4cf03d"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder that version 0.1 wrote. The databases are kept as SQL."""
    shutil.copy(OLD / "keys.json", tmp_path)
    for dump in OLD.glob("*.sql"):
        with sqlite3.connect(tmp_path / f"{dump.stem}.sqlite3") as database:
            database.executescript(dump.read_text(encoding="utf-8"))
        database.close()
    return tmp_path


async def test_an_old_folder_is_read(folder):
    for _ in range(2):  # at the first start and at later ones
        store = SQLiteStore(folder)
        keys = Keys(store)
        key = await keys.find(SECRET)
        assert key and (key.id, key.name, key.requests_per_minute, key.weight) == (KEY, "team", 60, 2.0)
        assert await keys.find(REVOKED) is None
        assert [each.remembered for each in await keys.all()] == [True, False]
        usage = Usage(store)
        assert (await usage.read(KEY), await usage.read("")) == (1234, 56)
        glossaries = Glossaries(store)
        assert [each.id for each in await glossaries.all(KEY)] == [PRODUCTS, SHARED]
        expected = Dictionary("en", "de", {"cat": "Mieze", "a, b": 'Ä "x"'})
        assert await glossaries.dictionary(KEY, PRODUCTS, "en", "de") == expected
        assert not (await glossaries.dictionary(KEY, PRODUCTS, "de", "en")).exact
        assert [entry.target for entry in (await glossaries.terms("", [SHARED], "en", "fr")).entries] == ["toutou"]
        await store.stop()
    assert {"keys.json", "usage.sqlite3"} < {file.name for file in folder.iterdir()}


async def test_changes_are_kept_beside_the_old_files(folder):
    for _ in range(2):
        store = SQLiteStore(folder)
        keys, glossaries = Keys(store), Glossaries(store)
        if await keys.find(SECRET):
            await keys.change(KEY, revoked=1.0)
            await glossaries.delete(EVERYONE, SHARED)
        assert await Keys(store).find(SECRET) is None
        assert [each.id for each in await glossaries.of()] == [PRODUCTS]
        await store.stop()


@pytest.mark.parametrize("name", ["keys.json", "glossaries.sqlite3", "usage.sqlite3"])
def test_damaged_keys_glossaries_and_usage_stop_the_start_and_nothing_is_lost(folder, name):
    (folder / name).write_text("{")
    with pytest.raises(SettingsError, match=name):
        SQLiteStore(folder)
    if name == "keys.json":
        (folder / name).write_text(json.dumps({"keys": []}))
        asyncio.run(SQLiteStore(folder).stop())
