"""API keys and limits: the file, the command, and what callers are told."""

from __future__ import annotations

import json
import stat

import pytest

from server.__main__ import main
from server.access.api_keys import FILE_NAME, KeyFile
from server.access.authentication import Access, network
from server.config import Settings
from server.errors import SettingsError

HELLO = {"q": "Hello", "source": "en", "target": "de"}


@pytest.fixture
def keys(tmp_path) -> KeyFile:
    return KeyFile(tmp_path)


def test_only_a_hash_is_stored(keys):
    secret, key = keys.create("someone")
    assert secret not in keys.path.read_text()
    assert keys.find(secret) == key
    assert keys.find(secret + "x") is None
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_another_process_is_noticed_at_once(keys, tmp_path):
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


def test_the_command(tmp_path, capsys):
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
def test_where_a_key_may_stand(serve, keys, parts):
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
def test_without_a_key_nothing_is_computed(serve, engine, keys, method, path, parts):
    client = serve(data=keys.path.parent, key_required=True)
    assert client.request(method, path, **parts).status_code == 403
    assert not engine.submitted and not engine.attended
    assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_as_long_as_there_are_no_keys_they_mean_nothing(client):
    assert client.post("/translate", json=HELLO | {"api_key": "anything"}).status_code == 200


def test_requests_are_limited_and_retry_after_is_kept(serve, monkeypatch):
    now = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    client = serve(requests_per_minute=2)
    assert [client.post("/translate", json=HELLO).status_code for _ in range(3)] == [200, 200, 429]
    answer = client.post("/translate", json=HELLO)
    wait = int(answer.headers["Retry-After"])
    assert 1 <= wait <= 60
    now[0] += wait - 1.5
    assert client.post("/translate", json=HELLO).status_code == 429
    now[0] += 1.5
    assert client.post("/translate", json=HELLO).status_code == 200


@pytest.mark.parametrize("jump", [-3_600.0, 3_600.0])
def test_a_clock_that_jumps_locks_nobody_out(serve, monkeypatch, jump):
    now = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    client = serve(requests_per_minute=1)
    assert [client.post("/translate", json=HELLO).status_code for _ in range(2)] == [200, 429]
    now[0] += jump
    assert [client.post("/translate", json=HELLO).status_code for _ in range(2)] == [200, 429]


def test_characters_are_limited_and_refused_ones_cost_nothing(serve):
    client = serve(characters_per_minute=10)
    assert client.post("/translate", json=HELLO | {"q": "x" * 11}).status_code == 400
    assert client.post("/translate", json=HELLO | {"q": "x" * 7}).status_code == 200
    assert client.post("/translate", json=HELLO | {"q": "x" * 7}).status_code == 429
    assert client.post("/translate", json=HELLO | {"q": "xyz"}).status_code == 200


def test_a_key_has_limits_of_its_own(serve, keys):
    free, _ = keys.create("free", requests_per_minute=0)
    slow, _ = keys.create("slow", requests_per_minute=1)
    client = serve(data=keys.path.parent, requests_per_minute=2)
    statuses = [client.post("/translate", json=HELLO | {"api_key": free}).status_code for _ in range(5)]
    assert statuses == [200] * 5
    statuses = [client.post("/translate", json=HELLO | {"api_key": slow}).status_code for _ in range(2)]
    assert statuses == [200, 429]
    metrics = client.get("/metrics").text
    assert 'attentive_requests_rejected_total{reason="rate"} 1.0' in metrics
    assert slow not in metrics


def test_an_unreachable_store_limits_this_server_alone(serve):
    client = serve(requests_per_minute=1, limits_storage="redis://127.0.0.1:9")
    assert [client.post("/translate", json=HELLO).status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    "settings", [{"key_required": True}, {"limits_storage": "nonsense"}, {"limits_storage": "nowhere://x"}]
)
def test_settings_that_cannot_be(settings):
    with pytest.raises(SettingsError):
        Access(Settings(**settings))


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


def test_servers_share_their_limits_through_redis(serve, redis):
    first, second = (serve(requests_per_minute=3, limits_storage=redis) for _ in range(2))
    statuses = [client.post("/translate", json=HELLO).status_code for client in (first, second, first, second)]
    assert statuses == [200, 200, 200, 429]
