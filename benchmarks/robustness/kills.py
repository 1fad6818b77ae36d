"""Repeated kill -9 of the worker under load: every request is still answered correctly, only
later."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.robustness.client import (
    AttemptStats,
    CheckedRequest,
    CheckingClient,
    distinct,
    growth,
)
from benchmarks.robustness.server import Served


async def kills(
    served: Served,
    requests: list[CheckedRequest],
    sentences: int,
    clients: int,
    seconds: float,
    every: float,
) -> dict[str, Any]:
    """Runs `clients` clients for `seconds`, and kills the worker every `every` seconds. Each
    request has `sentences` sentences."""
    stats, killed = AttemptStats(), list[int]()
    client = CheckingClient(served.address, stats, 110.0)
    before = await served.metrics()
    supply = distinct(requests)
    began = time.monotonic()
    killing = asyncio.create_task(_kill(served, client, every, killed))
    await asyncio.gather(*(_client(client, supply, began + seconds) for _ in range(clients)))
    elapsed = time.monotonic() - began
    killing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await killing
    client.close()
    await served.until_ready()
    after = await served.metrics()
    return {
        "clients": clients,
        "seconds": round(elapsed, 1),
        "kills": len(killed),
        "in flight at each kill": killed,
        "restarts": growth(before, after, "attentive_worker_restarts_total"),
        "answers": stats.answers,
        "answers/s": round(stats.answers / elapsed, 1),
        "statuses": dict(stats.statuses),
        "failures": stats.failures(),
        "wrong": stats.wrong,
        "repeated ids": stats.repeated_ids,
        "p50 ms": 1000 * stats.latency(0.5),
        "p99 ms": 1000 * stats.latency(0.99),
        "slowest ms": 1000 * stats.latency(1.0),
        "metrics minus clients": stats.differences(before, after),
        "sentences translated twice or in vain": growth(
            before, after, "attentive_request_success_total"
        )
        - sentences * stats.answers,
    }


async def _client(client: CheckingClient, supply: Iterator[CheckedRequest], end: float) -> None:
    while time.monotonic() < end:
        await client.send(next(supply))


async def _kill(served: Served, client: CheckingClient, every: float, killed: list[int]) -> None:
    """Kills the worker every `every` seconds and records how many requests were in flight."""
    while True:
        await asyncio.sleep(every)
        worker = await served.worker()
        if worker is not None:
            killed.append(len(client.in_flight))
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
