"""The log has every request; refusals of one kind in a second are one line and a number."""

from __future__ import annotations

import logging
import random
from collections import Counter

import pytest

from server.api.middleware.entrance import AccessLog
from server.observability.metrics import Metrics


async def test_every_request_is_in_a_line_or_in_a_number(caplog: pytest.LogCaptureFixture) -> None:
    rng, expected, metrics = random.Random(1), Counter(), Metrics("0")
    access_log = AccessLog(metrics)
    with caplog.at_level(logging.INFO, "server.access"):
        for _ in range(1_000):
            status, reason = rng.choice([(200, ""), (429, "queue"), (429, "caller"), (503, "Unavailable")])
            key, route = rng.choice(["", "a"]), rng.choice(["/translate", "/align"])
            fields = {name: value for name, value in (("reason", reason), ("key", key)) if value}
            access_log.add(route, "POST", status, 0.01, fields)
            expected[route, status, reason, key] += 1
            if rng.random() < 0.01:
                access_log.flush()
        access_log.flush()
        access_log.flush()
    logged, lines = Counter(), 0
    for line in map(vars, caplog.records):
        kind = line["route"], line["status"], line.get("reason", ""), line.get("key", "")
        logged[kind] += line.get("requests", 1)
        lines += line["status"] == 429
    assert logged == expected
    assert lines < sum(number for kind, number in expected.items() if kind[1] == 429) / 2
    counted = metrics.render().decode()
    assert 'requests_total{method="POST",route="/align",status="429"}' in counted


async def test_what_was_counted_is_logged_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    later = []

    def call_later(_, seconds, call, context):
        later.append((seconds, call))
        assert not list(context), "a line of many requests has the id of none"

    monkeypatch.setattr("asyncio.BaseEventLoop.call_later", call_later)
    access_log = AccessLog(Metrics("0"))
    for _ in range(3):
        access_log.add("/translate", "POST", 429, 0.01, {"reason": "queue"})
    assert [seconds for seconds, _ in later] == [1.0]
    later[0][1]()
    access_log.add("/translate", "POST", 429, 0.01, {"reason": "queue"})
    assert len(later) == 2
