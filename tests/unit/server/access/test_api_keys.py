"""The file of API keys and the command that changes it."""

from __future__ import annotations

import errno
import json
import stat

import pytest

from server.__main__ import main
from server.access.api_keys import FILE_NAME, KeyFile
from server.errors import SettingsError


@pytest.fixture
def keys(tmp_path) -> KeyFile:
    return KeyFile(tmp_path)


def test_only_the_hash_of_a_secret_is_stored(keys):
    secret, key = keys.create("someone")
    assert secret not in keys.path.read_text()
    assert keys.find(secret) == key
    assert keys.find(secret + "x") is None
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_a_change_by_another_process_takes_effect_at_once(keys, tmp_path):
    server = KeyFile(tmp_path)
    secret, key = keys.create("someone")
    assert server.find(secret)
    keys.revoke(key.id)
    assert server.find(secret) is None
    assert keys.revoke(key.id) is None
    assert [entry.revoked is not None for entry in server.all()] == [True]


def test_a_damaged_file_stops_a_start_but_not_a_running_server(keys, tmp_path):
    secret, _ = keys.create("someone")
    assert keys.find(secret)
    (tmp_path / FILE_NAME).write_text("{")
    assert keys.find(secret)
    with pytest.raises(SettingsError, match="damaged"):
        KeyFile(tmp_path)


def test_a_full_disk_leaves_the_keys_as_they_were_and_no_file_of_its_own(keys, tmp_path, monkeypatch):
    secret, _ = keys.create("someone")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        keys.create("someone else")
    assert keys.find(secret) and len(keys.all()) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("action", [("revoke", "x"), ("list",)])
def test_only_create_makes_a_key_file(action, tmp_path, capsys):
    status = main(["keys", *action, "--data", str(tmp_path / "mistyped")])
    assert status == (2 if action[0] == "revoke" else 0), capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_keys_are_created_listed_and_revoked_by_the_command(tmp_path, capsys):
    data = ("--data", str(tmp_path))
    assert main(["keys", "create", "Ann", "--requests-per-minute", "5", *data]) == 0
    secret = capsys.readouterr().out.strip()
    assert main(["keys", "list", "--json", *data]) == 0
    [entry] = json.loads(capsys.readouterr().out)
    assert (entry["name"], entry["requests_per_minute"], entry["revoked"]) == ("Ann", 5, None)
    assert "digest" not in entry
    assert main(["keys", "list", *data]) == 0
    assert "Ann" in capsys.readouterr().out
    assert main(["keys", "revoke", entry["id"], *data]) == 0
    assert main(["keys", "revoke", entry["id"], *data]) == 2
    assert KeyFile(tmp_path).find(secret) is None
    assert main(["keys", "list"]) == 2


@pytest.mark.parametrize("limit", ["-2", "1.5", "many"])
def test_a_limit_that_is_no_whole_number_is_named(tmp_path, capsys, limit):
    with pytest.raises(SystemExit, match="2"):
        main(["keys", "create", "Ann", "--requests-per-minute", limit, "--data", str(tmp_path)])
    assert f"must be a whole number from 0, not '{limit}'" in capsys.readouterr().err


def test_a_data_folder_that_cannot_be_made_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for words in (["keys", "create", "Ann"], ["glossary", "create", "x", "-", "--from", "en", "--to", "de"]):
        assert main([*words, "--data", str(tmp_path / "file" / "data")]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "Not a directory." in error
        assert "Errno" not in error


def test_the_weight_of_a_key_is_listed(tmp_path, capsys):
    data = ("--data", str(tmp_path))
    assert main(["keys", "create", "Ann", "--weight", "2.5", *data]) == main(["keys", "create", "Bob", *data]) == 0
    capsys.readouterr()
    assert main(["keys", "list", "--json", *data]) == 0
    assert [entry["weight"] for entry in json.loads(capsys.readouterr().out)] == [2.5, 1.0]
    assert main(["keys", "list", *data]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[-2] for row in (head, *rows)] == ["WEIGHT", "2.5", "1"]


@pytest.mark.parametrize("weight", ["0", "0.05", "100.5", "-1", "nan"])
def test_a_weight_out_of_range_is_one_sentence(tmp_path, capsys, weight):
    assert main(["keys", "create", "Ann", "--weight", weight, "--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"attentive: The weight of a key must be from 0.1 to 100, not {weight}.\n"
    assert KeyFile(tmp_path).all() == []


def test_a_key_file_without_weights_loads_and_one_with_a_bad_weight_does_not(keys, tmp_path):
    secret, _ = keys.create("someone", weight=3.0)
    stored = json.loads(keys.path.read_text())
    del stored["keys"][0]["weight"]
    keys.path.write_text(json.dumps(stored))
    old = KeyFile(tmp_path).find(secret)
    assert old is not None and old.weight == 1.0
    stored["keys"][0]["weight"] = 1000
    keys.path.write_text(json.dumps(stored))
    with pytest.raises(SettingsError, match=r"keys\.json: The weight of a key must be from 0\.1 to 100, not 1000\."):
        KeyFile(tmp_path)
