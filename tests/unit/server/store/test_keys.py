"""API keys in the data folder and the command that changes them."""

from __future__ import annotations

import json

import pytest

from server.__main__ import main
from server.config import Settings
from server.errors import SettingsError
from server.store.setting import open_own
from tests.support.keys import KeyFile

HELLO = {"q": "Hello", "source": "en", "target": "de"}


@pytest.fixture
def keys(tmp_path) -> KeyFile:
    return KeyFile(tmp_path)


def test_a_change_by_another_process_takes_effect_at_once(serve, keys):
    client = serve(data=keys.folder)

    def status(secret: str) -> int:
        return client.post("/translate", json=HELLO | {"api_key": secret}).status_code

    assert status("any") == 200  # there are no keys
    secret, key = keys.create("Ann")
    keys.create("Bob")
    assert [status(secret), status(secret + "x")] == [200, 403]
    keys.revoke(key.id)
    assert keys.revoke(key.id) is None
    assert status(secret) == 403


def test_keys_are_in_the_data_folder_while_the_rest_is_in_memory(serve, keys):
    secret, _ = keys.create("Ann")
    client = serve(data=keys.folder, state="memory")
    assert client.post("/translate", json=HELLO | {"api_key": secret}).status_code == 200
    assert client.post("/translate", json=HELLO | {"api_key": "wrong"}).status_code == 403


def test_known_keys_stay_valid_and_others_are_refused_while_the_file_cannot_be_used(serve, keys):
    secret, _ = keys.create("Ann")
    client = serve(data=keys.folder)
    body = HELLO | {"api_key": secret}
    assert client.post("/translate", json=body).status_code == 200
    client.app.state.services.store._reader.close()
    assert client.post("/translate", json=body).status_code == 200
    assert client.post("/translate", json=HELLO | {"api_key": "wrong"}).status_code == 403


def test_a_damaged_file_stops_a_start(keys):
    keys.create("Ann")
    (keys.folder / "attentive.sqlite3").write_bytes(b"no database" * 1_000)
    with pytest.raises(SettingsError, match="cannot be opened: file is not a database"):
        open_own(Settings(data=keys.folder))


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
    assert [key.revoked is None for key in KeyFile(tmp_path).all()] == [False]
    assert secret not in str(KeyFile(tmp_path).all())
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
