"""API keys: the file, the command, and the requests that need one."""

from __future__ import annotations

import json
import stat

import pytest

from server.__main__ import main
from server.access.api_keys import FILE_NAME, KeyFile
from server.access.authentication import Authenticator, network
from server.config import Settings
from server.errors import SettingsError

HELLO = {"q": "Hello", "source": "en", "target": "de"}


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
    assert main(["keys", "revoke", entry["id"], *data]) == 1
    assert KeyFile(tmp_path).find(secret) is None
    assert main(["keys", "list"]) == 2


@pytest.mark.parametrize(
    "parts",
    [
        {"json": HELLO | {"api_key": "KEY"}},
        {"data": HELLO | {"api_key": "KEY"}},
        {"params": HELLO | {"api_key": "KEY"}},
        {"json": HELLO, "headers": {"Authorization": "Bearer KEY"}},
    ],
)
def test_a_key_is_accepted_in_body_query_and_header(serve, keys, parts):
    secret, _ = keys.create("someone")
    client = serve(data=keys.path.parent, key_required=True)
    good = json.loads(json.dumps(parts).replace("KEY", secret))
    assert client.post("/translate", **good).status_code == 200
    assert client.post("/translate", **parts).status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "parts"),
    [
        ("POST", "/translate", {"json": HELLO}),
        ("POST", "/detect", {"json": {"q": "Hello"}}),
        ("GET", "/attention", {"params": HELLO}),
        ("POST", "/v2/translate", {"json": {"text": ["x"], "target_lang": "DE"}}),
        ("GET", "/v2/usage", {}),
        ("POST", "/language/translate/v2", {"json": HELLO}),
        ("POST", "/translate_file", {"files": {"file": ("a.txt", b"Hello")}, "data": {"source": "en", "target": "de"}}),
    ],
)
def test_a_request_without_a_required_key_is_rejected_before_any_work(serve, engine, keys, method, path, parts):
    client = serve(data=keys.path.parent, key_required=True)
    assert client.request(method, path, **parts).status_code == 403
    assert not engine.submitted and not engine.attended
    assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_keys_in_requests_are_ignored_while_none_exists(client):
    assert client.post("/translate", json=HELLO | {"api_key": "anything"}).status_code == 200


def test_required_keys_need_a_data_folder():
    with pytest.raises(SettingsError):
        Authenticator(Settings(key_required=True))


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_an_ipv6_network_counts_as_one_caller(address, counted):
    assert network(address) == counted
