"""Limits on requests and characters per minute."""

from __future__ import annotations

import asyncio
import random

import pytest

from server.access.authentication import Caller
from server.access.rate_limits import RateLimiter, Windows
from server.config import Settings
from server.errors import Overloaded
from server.store.keys import Key, Usage
from server.store.redis import RedisStore, connect

HELLO = {"q": "Hello", "source": "en", "target": "de"}


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
    client = serve(data=keys.folder, requests_per_minute=2)
    statuses = [
        client.post("/translate", json=HELLO | {"api_key": free}).status_code for _ in range(5)
    ]
    assert statuses == [200] * 5
    statuses = [
        client.post("/translate", json=HELLO | {"api_key": slow}).status_code for _ in range(2)
    ]
    assert statuses == [200, 429]
    metrics = client.get("/metrics").text
    assert 'attentive_requests_rejected_total{reason="rate"} 1.0' in metrics
    assert slow not in metrics


def test_a_server_counts_for_itself_while_the_storage_is_unreachable(serve):
    client = serve(requests_per_minute=1, state="redis://127.0.0.1:9")
    assert [client.post("/translate", json=HELLO).status_code for _ in range(2)] == [200, 429]


async def test_the_limit_holds_exactly_for_parallel_requests_to_two_servers(redis):
    """Of each 100 requests and 1,000 characters, exactly the permitted ones are counted, whatever
    the order, per minute and in a key's month."""

    async def accepted(limiter: RateLimiter, caller: Caller, characters: int) -> int:
        try:
            await limiter.count(caller, 1, characters)
        except Overloaded as error:
            assert error.reason == "quota" or 1 <= error.retry_after <= 60
            return 0
        return characters

    states = [RedisStore(connect(redis)) for _ in range(2)]
    by_requests = [
        RateLimiter(Settings(requests_per_minute=60), Usage(state), state) for state in states
    ]
    by_characters = [
        RateLimiter(Settings(characters_per_minute=500), Usage(state), state) for state in states
    ]
    by_quota = [RateLimiter(Settings(), Usage(state), state) for state in states]
    limited = Caller(
        "c", Key("ab", "Ann", "digest", 0.0, characters_per_day=600, characters_per_month=500)
    )
    for limiters, caller, characters, most in (
        (by_requests, Caller("a"), 1, 60),
        (by_characters, Caller("b"), 10, 500),
        (by_quota, limited, 10, 500),
    ):
        tasks = [accepted(limiter, caller, characters) for _ in range(50) for limiter in limiters]
        assert sum(await asyncio.gather(*tasks)) == most
    assert [quota.used for quota in await by_quota[0].usage.quotas(limited.key)] == [500, 500]
    for state in states:
        await state.stop()


def test_a_request_over_one_limit_is_counted_against_neither_on_any_server(serve, redis):
    first, second = (
        serve(state=redis, requests_per_minute=2, characters_per_minute=10) for _ in range(2)
    )
    requests = ((first, 7), (second, 7), (first, 3), (second, 1))
    answers = [
        client.post("/translate", json=HELLO | {"q": "x" * length}) for client, length in requests
    ]
    assert [answer.status_code for answer in answers] == [200, 429, 200, 429]
    assert "limit of characters per minute is 10." in answers[1].json()["error"]
    assert "limit of requests per minute is 2." in answers[3].json()["error"]
    assert 1 <= int(answers[3].headers["Retry-After"]) <= 60


def test_windows_count_like_a_list_of_all_counts(monkeypatch):
    """Any names and amounts; names that do not return are forgotten."""
    rng, now, windows = random.Random(1), 1_000_000.0, Windows()
    monkeypatch.setattr("time.time", lambda: now)
    began: dict[str, float] = {}
    sums: dict[str, int] = {}
    for _ in range(5_000):
        now += rng.choice((0.0, 0.1, 1.0, 5.0, 70.0))
        amounts = [(name, 10, rng.randint(1, 4)) for name in rng.sample("abcdef", 2)]
        for name, _, _ in amounts:
            if not 0 <= now - began.get(name, -1e9) < 60:
                began[name], sums[name] = now, 0
        over = [
            place
            for place, (name, limit, amount) in enumerate(amounts)
            if sums[name] + amount > limit
        ]
        position, seconds = windows.charge(amounts)
        assert position == (over[0] if over else -1)
        if over:
            assert seconds == pytest.approx(began[amounts[position][0]] + 60 - now)
        else:
            sums |= {name: sums[name] + amount for name, _, amount in amounts}
        began = {name: moment for name, moment in began.items() if sums[name]}
    for number in range(10_000):
        now += 1.0
        windows.charge([(str(number), 10, 1)])
    assert len(windows._counts) < 100
