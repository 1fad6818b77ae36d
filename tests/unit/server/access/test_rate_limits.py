"""Limits on requests and characters per minute."""

from __future__ import annotations

import pytest

from server.access.api_keys import KeyFile
from server.access.rate_limits import RateLimiter
from server.config import Settings
from server.errors import SettingsError

HELLO = {"q": "Hello", "source": "en", "target": "de"}


@pytest.fixture
def keys(tmp_path) -> KeyFile:
    return KeyFile(tmp_path)


def test_requests_are_limited_and_admitted_after_retry_after(serve, monkeypatch):
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
def test_a_jump_of_the_clock_does_not_prolong_a_window(serve, monkeypatch, jump):
    now = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    client = serve(requests_per_minute=1)
    assert [client.post("/translate", json=HELLO).status_code for _ in range(2)] == [200, 429]
    now[0] += jump
    assert [client.post("/translate", json=HELLO).status_code for _ in range(2)] == [200, 429]


def test_characters_are_limited_and_rejected_ones_are_not_counted(serve):
    client = serve(characters_per_minute=10)
    assert client.post("/translate", json=HELLO | {"q": "x" * 11}).status_code == 400
    assert client.post("/translate", json=HELLO | {"q": "x" * 7}).status_code == 200
    assert client.post("/translate", json=HELLO | {"q": "x" * 7}).status_code == 429
    assert client.post("/translate", json=HELLO | {"q": "xyz"}).status_code == 200


def test_the_limits_of_a_key_replace_those_of_the_server(serve, keys):
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


def test_a_server_counts_for_itself_while_the_storage_is_unreachable(serve):
    client = serve(requests_per_minute=1, state="redis://127.0.0.1:9")
    assert [client.post("/translate", json=HELLO).status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize("address", ["nonsense", "nowhere://x"])
def test_a_storage_address_that_cannot_be_used_is_refused(address):
    with pytest.raises(SettingsError):
        RateLimiter(Settings(state=address))


def test_servers_share_their_limits_through_redis(serve, redis):
    first, second = (serve(requests_per_minute=3, state=redis) for _ in range(2))
    statuses = [client.post("/translate", json=HELLO).status_code for client in (first, second, first, second)]
    assert statuses == [200, 200, 200, 429]
