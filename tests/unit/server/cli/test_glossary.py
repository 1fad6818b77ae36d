"""The command `attentive glossary`."""

from __future__ import annotations

import json

import pytest

from server.__main__ import main
from tests.support.servers.keys import KeyFile


@pytest.fixture
def glossary(tmp_path, capsys):
    def call(*words: str, status: int = 0) -> str:
        assert main(["glossary", *words, "--data", str(tmp_path)]) == status
        output = capsys.readouterr()
        return (output.err if status else output.out).strip()

    return call


@pytest.fixture
def entries(tmp_path):
    def write(text: str, name: str = "terms.tsv") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


PAIR = ("--from", "en", "--to", "de")


def test_a_glossary_is_created_changed_and_deleted(glossary, entries):
    id = glossary("create", "Devices", entries("battery\tAkku\n"), *PAIR)
    assert id in glossary("list") and "everyone" in glossary("list")
    glossary("import", id, entries("device,Gerät\n", "more.csv"), *PAIR)
    glossary("import", id, entries("Akku\tbattery\n"), "--from", "de", "--to", "en", "--inflected")
    shown = json.loads(glossary("show", id))
    assert (shown["name"], shown["key"]) == ("Devices", None)
    assert [(pair["entries"], pair["exact"]) for pair in shown["dictionaries"]] == [
        (2, True),
        (1, False),
    ]
    assert json.loads(glossary("list", "--json")) == [shown]
    assert glossary("export", id, *PAIR) == "battery\tAkku\ndevice\tGerät"
    assert glossary("export", id, *PAIR, "--csv") == "battery,Akku\ndevice,Gerät"
    glossary("delete", id)
    assert json.loads(glossary("list", "--json")) == []


def test_a_glossary_may_belong_to_a_key(glossary, entries, tmp_path):
    _, key = KeyFile(tmp_path).create("ann")
    id = glossary("create", "Own", entries("a\tb"), *PAIR, "--key", key.id)
    assert json.loads(glossary("show", id))["key"] == key.id
    assert "no valid key" in glossary(
        "create", "Own", entries("a\tb"), *PAIR, "--key", "unknown", status=2
    )


def test_errors_are_one_sentence(glossary, entries, capsys):
    assert "Line 1" in glossary("create", "x", entries("a"), *PAIR, status=2)
    assert "no glossary" in glossary("show", "unknown", status=2)
    assert "different" in glossary(
        "create", "x", entries("a\tb"), "--from", "en", "--to", "EN-GB", status=2
    )
    assert main(["glossary", "list"]) == 2
    assert "ATTENTIVE_DATA" in capsys.readouterr().err


@pytest.mark.parametrize(
    "action", [("list",), ("show", "x"), ("delete", "x"), ("import", "x", "-", *PAIR)]
)
def test_only_create_makes_a_database(action, tmp_path, capsys):
    missing = tmp_path / "mistyped"
    assert main(["glossary", *action, "--data", str(missing)]) == 2
    assert capsys.readouterr().err == f"attentive: There are no glossaries in '{missing}'.\n"
    assert not missing.exists()
