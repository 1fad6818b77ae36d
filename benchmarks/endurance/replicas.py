"""Two servers behind HAProxy, whose API processes and Redis are killed in turn, or which are stopped in turn: the clients see
no error, and the state is the same through either server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from typing import Any

from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient, distinct
from benchmarks.endurance.fleet import PARTS, Fleet
from benchmarks.endurance.shared_state import shared_state

_CALM_SHARE = 0.2
"""Part of the time before the first kill, in which the processor time per request is measured."""


async def replicas(
    fleet: Fleet, requests: list[CheckedRequest], clients: int, seconds: float, every: float, stop: bool = False
) -> dict[str, Any]:
    """Runs `clients` clients against the front for `seconds`.

    After a calm part of the time, parts of the fleet are killed in turn, or with `stop` the servers end with SIGTERM. There
    are `every` seconds between a recovery and the next one.
    """
    before = await asyncio.to_thread(shared_state, fleet)
    stats = AttemptStats()
    client = CheckingClient(fleet.front, stats, 110.0)
    supply = distinct(requests)
    began = time.monotonic()
    sending = asyncio.gather(*(_client(client, supply, began + seconds) for _ in range(clients)))
    cost = await _cost(fleet, stats, seconds * _CALM_SHARE)
    ending = asyncio.create_task(_end(fleet, every, began + seconds, stop))
    await sending
    elapsed = time.monotonic() - began
    ended = await ending
    await client.close()
    after = await asyncio.to_thread(shared_state, fleet)
    return {
        "clients": clients, "seconds": round(elapsed, 1), "stops" if stop else "kills": dict(ended),
        "answers": stats.answers, "answers/s": round(stats.answers / elapsed, 1), "statuses": dict(stats.statuses),
        "lost": stats.failures(), "wrong": stats.wrong, "repeated ids": stats.repeated_ids,
        "stray answers": stats.stray, "p50 ms": 1000 * stats.latency(0.5), "p99 ms": 1000 * stats.latency(0.99),
        "slowest ms": 1000 * stats.latency(1.0), **cost,
        "state before": before, "state after": after,
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


async def _end(fleet: Fleet, every: float, until: float, stop: bool) -> Counter[str]:
    """Kills or stops the parts in turn. Returns how often each of them."""
    ended = Counter[str]()
    parts, end = (PARTS[:2], fleet.stop) if stop else (PARTS, fleet.kill)
    for part in cycle(parts):
        if time.monotonic() >= until:
            break
        ended[part] += 1
        await asyncio.to_thread(end, part)
        await fleet.recovered()
        await asyncio.sleep(every)
    return ended
