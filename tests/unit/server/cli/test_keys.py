"""The command `attentive keys`."""

from __future__ import annotations

import json

import pytest

from server.__main__ import main
from tests.support.servers.keys import KeyFile
from tests.support.servers.ports import free_port


@pytest.mark.parametrize(("required", "warned"), [("", True), ("false", True), ("true", False)])
def test_callers_without_a_key_are_a_warning(monkeypatch, tmp_path, capsys, required, warned):
    monkeypatch.setenv("ATTENTIVE_KEY_REQUIRED", required)
    assert main(["keys", "create", "Ann", "--data", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 1
    assert ("ATTENTIVE_KEY_REQUIRED=true" in output.err) == warned


@pytest.mark.parametrize("action", [("revoke", "x"), ("list",)])
def test_only_create_makes_a_key_file(action, tmp_path, capsys):
    status = main(["keys", *action, "--data", str(tmp_path / "mistyped")])
    assert status == (2 if action[0] == "revoke" else 0), capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_keys_are_created_listed_and_revoked(tmp_path, capsys):
    data = ("--data", str(tmp_path))
    assert main(["keys", "create", "Ann", "--requests-per-minute", "5", "--weight", "2.5", *data]) == 0
    secret = capsys.readouterr().out.strip()
    assert main(["keys", "create", "Bob", *data]) == 0
    capsys.readouterr()
    assert main(["keys", "list", "--json", *data]) == 0
    entry, other = json.loads(capsys.readouterr().out)
    assert (entry["name"], entry["requests_per_minute"], entry["revoked"]) == ("Ann", 5, None)
    assert (entry["weight"], other["weight"]) == (2.5, 1.0)
    assert "digest" not in entry
    assert main(["keys", "list", *data]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[-2:] for row in rows] == [["WEIGHT", "NAME"], ["2.5", "Ann"], ["1", "Bob"]]
    assert main(["keys", "revoke", entry["id"], *data]) == 0
    assert main(["keys", "revoke", entry["id"], *data]) == 2
    assert [key.revoked is None for key in KeyFile(tmp_path).all()] == [False, True]
    assert secret not in str(KeyFile(tmp_path).all())
    assert main(["keys", "list"]) == 2


@pytest.mark.parametrize("limit", ["-2", "1.5", "many"])
def test_a_limit_that_is_no_whole_number_is_named(tmp_path, capsys, limit):
    with pytest.raises(SystemExit, match="2"):
        main(["keys", "create", "Ann", "--requests-per-minute", limit, "--data", str(tmp_path)])
    assert f"must be a whole number from 0, not '{limit}'" in capsys.readouterr().err


@pytest.mark.parametrize("weight", ["0", "0.05", "100.5", "-1", "nan"])
def test_a_weight_out_of_range_is_one_sentence(tmp_path, capsys, weight):
    assert main(["keys", "create", "Ann", "--weight", weight, "--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"attentive: The weight of a key must be from 0.1 to 100, not {weight}.\n"
    assert KeyFile(tmp_path).all() == []


def test_a_place_that_cannot_be_used_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for words in (["keys", "create", "Ann"], ["glossary", "create", "x", "-", "--from", "en", "--to", "de"]):
        assert main([*words, "--data", str(tmp_path / "file" / "data")]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "Not a directory." in error
        assert "Errno" not in error
    assert main(["keys", "list", "--state", f"redis://:hunter2@127.0.0.1:{free_port()}"]) == 1
    error = capsys.readouterr().err
    assert "cannot be reached" in error
    assert "hunter2" not in error
