"""Two servers behind HAProxy, whose API processes and Redis are killed in turn: the clients see no error, and the state is
the same through either server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient, distinct
from benchmarks.endurance.fleet import PARTS, Fleet
from benchmarks.endurance.shared_state import shared_state

_CALM_SHARE = 0.2
"""Part of the time before the first kill, in which the processor time per request is measured."""


async def replicas(
    fleet: Fleet, requests: list[CheckedRequest], clients: int, seconds: float, every: float
) -> dict[str, Any]:
    """Runs `clients` clients against the front for `seconds`. After a calm part of the time, a part of the fleet is killed
    every `every` seconds, once all have recovered from the kill before."""
    before = await asyncio.to_thread(shared_state, fleet)
    stats, killed = AttemptStats(), Counter[str]()
    client = CheckingClient(fleet.front, stats, 110.0)
    supply = distinct(requests)
    began = time.monotonic()
    sending = asyncio.gather(*(_client(client, supply, began + seconds) for _ in range(clients)))
    cost = await _cost(fleet, stats, seconds * _CALM_SHARE)
    killing = asyncio.create_task(_kill(fleet, every, killed))
    await sending
    elapsed = time.monotonic() - began
    killing.cancel()
    [ended] = await asyncio.gather(killing, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended
    await client.close()
    await fleet.recovered()
    after = await asyncio.to_thread(shared_state, fleet)
    return {
        "clients": clients, "seconds": round(elapsed, 1), "kills": dict(killed),
        "answers": stats.answers, "answers/s": round(stats.answers / elapsed, 1), "statuses": dict(stats.statuses),
        "lost": stats.failures(), "wrong": stats.wrong, "repeated ids": stats.repeated_ids,
        "stray answers": stats.stray, "p50 ms": 1000 * stats.latency(0.5), "p99 ms": 1000 * stats.latency(0.99),
        "slowest ms": 1000 * stats.latency(1.0), **cost,
        "state before the kills": before, "state after the kills": after,
        "state that differs": sorted(name for found in (before, after) for name, value in found.items() if value != "right"),
    }  # fmt: skip


async def _client(client: CheckingClient, supply: Iterator[CheckedRequest], end: float) -> None:
    while time.monotonic() < end:
        outcome = await client.send(next(supply))
        if outcome.status == "429":
            await asyncio.sleep(min(outcome.retry_after, max(0.0, end - time.monotonic())))


async def _cost(fleet: Fleet, stats: AttemptStats, seconds: float) -> dict[str, float]:
    """Returns the processor time of the front, of Redis and of the servers per answer, in milliseconds."""
    parts = ("front", *PARTS)
    before, answers = {part: fleet.processor_seconds(part) for part in parts}, stats.answers
    await asyncio.sleep(seconds)
    used = {part: fleet.processor_seconds(part) - before[part] for part in parts}
    number = max(1, stats.answers - answers)
    servers = used["server-1"] + used["server-2"]
    return {
        f"processor time of {name} per answer, ms": round(1000 * value / number, 3)
        for name, value in (("the front", used["front"]), ("Redis", used["redis"]), ("the servers", servers))
    }


async def _kill(fleet: Fleet, every: float, killed: Counter[str]) -> None:
    while True:
        for part in PARTS:
            await asyncio.to_thread(fleet.kill, part)
            killed[part] += 1
            await fleet.recovered()
            await asyncio.sleep(every)
