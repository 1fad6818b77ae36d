"""Characters of a key per day and month: what is refused and when it is accepted again, on one server and on several."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest

from server.__main__ import main
from server.access.authentication import Caller
from server.access.rate_limits import RateLimiter
from server.config import Settings
from server.errors import QuotaExceeded
from server.store.keys import Key
from server.store.redis import RedisStore
from server.store.redis_connection import connect
from server.store.usage import Usage, quotas_of
from tests.support.servers.in_process import wait_for

MONDAY = datetime(2026, 11, 30, 23, 59, 30, tzinfo=UTC).timestamp()
HELLO = {"source": "en", "target": "de"}


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time of all servers, in seconds since the epoch."""
    now = [MONDAY]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


def send(client, secret: str, characters: int):
    return client.post("/translate", json=HELLO | {"q": "x" * characters, "api_key": secret})


def key(**limits: int) -> Key:
    return Key("ab", "Ann", "digest", 0.0, **limits)


@pytest.mark.parametrize(
    ("now", "day", "month"),
    [
        ("2026-11-26T12:00", "2026-11-27T00:00:00Z", "2026-12-01T00:00:00Z"),
        ("2026-12-31T23:59", "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("2028-02-28T00:00", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"),
        ("2027-01-31T00:00", "2027-02-01T00:00:00Z", "2027-02-01T00:00:00Z"),
    ],
)
def test_a_period_ends_with_the_day_or_the_month_in_utc(clock, now, day, month):
    clock[0] = datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp()
    quotas = quotas_of(key(characters_per_day=1, characters_per_month=2))
    assert [(quota.period, quota.limit, quota.reset) for quota in quotas] == [("day", 1, day), ("month", 2, month)]
    assert [quota.seconds for quota in quotas] == [
        datetime.fromisoformat(reset).timestamp() - clock[0] for reset in (day, month)
    ]
    assert quotas_of(key(characters_per_day=0)) == []


def test_a_quota_is_refused_until_its_period_ends(serve, keys, clock):
    secret, _ = keys.create("Ann", characters_per_day=10, characters_per_month=15)
    client = serve(data=keys.folder)
    assert [send(client, secret, count).status_code for count in (7, 4, 3)] == [
        200,
        429,
        200,
    ]  # a refused text counts not
    answer = send(client, secret, 1)
    assert answer.json()["error"].endswith("10 characters per day of this key are used until 2026-12-01T00:00:00Z.")
    assert answer.headers["Retry-After"] == "30"
    clock[0] += 30
    assert [send(client, secret, count).status_code for count in (10, 1)] == [200, 429]  # the month has ended too
    clock[0] += 86_400
    assert [send(client, secret, count).status_code for count in (6, 5)] == [429, 200]
    answer = send(client, secret, 1)
    assert "15 characters per month of this key are used until 2027-01-01T00:00:00Z." in answer.json()["error"]
    assert int(answer.headers["Retry-After"]) == 30 * 86_400
    assert 'attentive_requests_rejected_total{reason="quota"} 5.0' in client.get("/metrics").text


def test_every_interface_says_so_in_its_form(serve, keys, clock):
    secret, _ = keys.create("Ann", characters_per_month=5)
    client = serve(data=keys.folder, key_required=True)
    headers = {"Authorization": f"Bearer {secret}"}
    shown = {"character_count": 0, "character_limit": 5, "end_time": "2026-12-01T00:00:00Z"}
    assert client.get("/v2/usage", headers=headers).json() == shown
    assert send(client, secret, 5).status_code == 200
    assert client.get("/v2/usage", headers=headers).json() == shown | {"character_count": 5}
    deepl = client.post("/v2/translate", json={"text": ["x"], "target_lang": "DE"}, headers=headers)
    assert (deepl.status_code, set(deepl.json()), deepl.headers["Retry-After"]) == (456, {"message"}, "30")
    document = client.post("/v2/document", files={"file": ("a.txt", b"x")}, data={"target_lang": "DE"}, headers=headers)
    assert (document.status_code, set(document.json())) == (456, {"message"})
    google = client.post("/language/translate/v2", json={"q": "x", "target": "de"}, headers=headers)
    assert (google.status_code, google.json()["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    deeplx = client.post("/deeplx/translate", json={"text": "x", "target_lang": "DE"}, headers=headers)
    assert (deeplx.status_code, deeplx.json()["code"]) == (429, 429)
    file = client.post("/translate_file", files={"file": ("a.txt", b"x")}, data=HELLO, headers=headers)
    assert file.status_code == 429
    assert client.get("/v2/languages", headers=headers).status_code == 200  # has no characters


def test_counts_are_kept_over_restarts_and_limits_change_while_a_server_runs(serve, keys, clock, capsys):
    data = ("--data", str(keys.folder))
    assert main(["keys", "create", "Ann", "--per-day", "10", "--per-month", "1000", *data]) == 0
    secret = capsys.readouterr().out.strip()
    assert send(serve(data=keys.folder), secret, 7).status_code == 200
    client = serve(data=keys.folder)
    assert send(client, secret, 7).status_code == 429
    [ann] = keys.all()
    assert main(["keys", "change", ann.id, "--per-day", "20", *data]) == 0
    wait_for(lambda: send(client, secret, 7).status_code == 200)
    capsys.readouterr()
    assert main(["keys", "list", "--json", *data]) == 0
    [listed] = json.loads(capsys.readouterr().out)
    assert listed["quotas"] == [
        {"period": "day", "used": 14, "limit": 20, "reset": "2026-12-01T00:00:00Z"},
        {"period": "month", "used": 14, "limit": 1000, "reset": "2026-12-01T00:00:00Z"},
    ]
    assert main(["keys", "list", *data]) == 0
    assert "  14/20  14/1,000  " in capsys.readouterr().out
    assert main(["keys", "change", ann.id, "--per-day", "0", "--weight", "3", *data]) == 0
    assert main(["keys", "change", "none", "--per-day", "1", *data]) == 2
    assert main(["keys", "change", ann.id, "--weight", "1000", *data]) == 2
    [changed] = keys.all()
    assert (changed.characters_per_day, changed.characters_per_month, changed.weight) == (0, 1000, 3.0)


async def test_a_quota_holds_exactly_for_parallel_requests_to_two_servers(redis):
    states = [RedisStore(connect(redis)) for _ in range(2)]
    usages = [Usage(state) for state in states]
    limiters = [RateLimiter(Settings(), usage, state) for usage, state in zip(usages, states, strict=True)]
    caller = Caller("key ab", key(characters_per_day=600, characters_per_month=500))

    async def accepted(limiter: RateLimiter) -> int:
        try:
            await limiter.count(caller, 1, 10)
        except QuotaExceeded:
            return 0
        return 10

    assert sum(await asyncio.gather(*[accepted(limiter) for _ in range(50) for limiter in limiters])) == 500
    records = ["ab", *[quota.record for quota in quotas_of(caller.key)]]
    assert [await usages[0].read(record) for record in records] == [500, 500, 500]
    for state in states:
        await state.stop()
