"""Glossaries in their store: owners, bounds, formats."""

from __future__ import annotations

import pytest

from server.errors import Forbidden, InvalidRequest, NotFound, PayloadTooLarge, SettingsError
from server.glossaries import glossaries as bounds
from server.glossaries.formats import read_entries, write_entries
from server.glossaries.glossaries import EVERYONE, Glossaries
from server.glossaries.sqlite import FILE_NAME, SQLiteGlossaries
from server.glossaries.types import TERM_CHARACTERS, Dictionary

DEVICES = Dictionary("en", "de", {"battery": "Akku", "device": "Gerät"})


@pytest.fixture
def glossaries() -> Glossaries:
    return Glossaries(SQLiteGlossaries(None))


def test_a_glossary_is_kept_over_a_restart(tmp_path):
    first = Glossaries(SQLiteGlossaries(tmp_path))
    created = first.create("ann", "Devices", [DEVICES])
    first.store.close()
    second = Glossaries(SQLiteGlossaries(tmp_path))
    assert second.all("ann") == [created]
    assert second.dictionary("ann", created.id, "en", "de") == DEVICES
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_a_change_by_another_process_takes_effect_at_once(tmp_path):
    server, command = (Glossaries(SQLiteGlossaries(tmp_path)) for _ in range(2))
    id = command.create(EVERYONE, "Devices", [DEVICES]).id
    assert len(server.terms("ann", [id], "en", "de").entries) == 2
    command.put(EVERYONE, id, Dictionary("en", "de", {"screen": "Bildschirm"}), merge=True)
    assert len(server.terms("ann", [id], "en", "de").entries) == 3
    command.remove(EVERYONE, id, "en", "de")
    with pytest.raises(InvalidRequest):
        server.terms("ann", [id], "en", "de")


def test_a_glossary_belongs_to_its_owner(glossaries):
    own = glossaries.create("ann", "Own", [DEVICES])
    shared = glossaries.create(EVERYONE, "Shared", [DEVICES])
    assert [one.name for one in glossaries.all("bob")] == ["Shared"]
    for change in (glossaries.find, glossaries.delete):
        with pytest.raises(NotFound):
            change("bob", own.id)
    with pytest.raises(Forbidden):
        glossaries.delete("bob", shared.id)
    glossaries.delete("ann", own.id)
    assert glossaries.all("ann") == [shared]


def test_the_first_glossary_that_has_a_term_counts(glossaries):
    first = glossaries.create("ann", "1", [Dictionary("en", "de", {"battery": "Batterie"}, exact=False)])
    second = glossaries.create("ann", "2", [DEVICES])
    found = {entry.source: entry for entry in glossaries.terms("ann", [first.id, second.id], "en", "de").entries}
    assert (found["battery"].target, found["battery"].exact) == ("Batterie", False)
    assert (found["device"].target, found["device"].exact) == ("Gerät", True)


def test_an_index_is_kept_until_the_glossary_changes(glossaries):
    id = glossaries.create("ann", "1", [DEVICES]).id
    before = glossaries.terms("ann", [id], "en", "de")
    assert glossaries.terms("ann", [id], "EN-GB", "de") is before
    glossaries.put("ann", id, Dictionary("en", "de", {"battery": "Batterie"}))
    assert [entry.target for entry in glossaries.terms("ann", [id], "en", "de").entries] == ["Batterie"]


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ({}, InvalidRequest),
        ({"x" * (TERM_CHARACTERS + 1): "y"}, InvalidRequest),
        ({"x": " "}, InvalidRequest),
        ({"x": "a\x00b"}, InvalidRequest),
        ({str(number): "x" for number in range(10_001)}, PayloadTooLarge),
    ],
)
def test_sizes_are_bounded_and_nothing_is_stored(glossaries, entries, error):
    with pytest.raises(error):
        glossaries.create("ann", "x", [DEVICES, Dictionary("en", "fr", entries)])
    assert glossaries.all("ann") == []


def test_glossaries_of_an_owner_are_bounded(glossaries, monkeypatch):
    monkeypatch.setattr(bounds, "GLOSSARIES", 1)
    glossaries.create("ann", "x", [DEVICES])
    with pytest.raises(InvalidRequest, match="limit"):
        glossaries.create("ann", "y", [DEVICES])
    glossaries.create("bob", "y", [DEVICES])
    monkeypatch.setattr(bounds, "CHARACTERS", DEVICES.characters)
    with pytest.raises(PayloadTooLarge):
        glossaries.put("bob", glossaries.all("bob")[0].id, Dictionary("en", "fr", {"x": "y"}))
    assert len(glossaries.all("bob")[0].dictionaries) == 1


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_a_name_is_bounded(glossaries, name):
    with pytest.raises(InvalidRequest):
        glossaries.create("ann", name, [DEVICES])


def test_a_folder_that_cannot_be_used_stops_the_start(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError):
        SQLiteGlossaries(tmp_path / "file")


@pytest.mark.parametrize("format", ["tsv", "csv"])
def test_entries_are_written_as_they_are_read(format):
    entries = {"one, two": 'the "first"', "Grüße": "greetings"}
    assert read_entries("\ufeff" + write_entries(entries, format), format) == entries


@pytest.mark.parametrize(
    ("text", "format", "line"),
    [
        ("a\tb\nc", "tsv", 2),
        ("a,b,c", "csv", 1),
        ("a\t\n", "tsv", 1),
        ("a\tb\n\na\tc", "tsv", 3),
        ("a\tb\tc", "tsv", 1),
    ],
)
def test_a_wrong_line_is_named(text, format, line):
    with pytest.raises(InvalidRequest, match=f"Line {line} "):
        read_entries(text, format)


def test_csv_may_name_the_languages():
    assert read_entries("battery,Akku,en,de\n", "csv") == {"battery": "Akku"}
