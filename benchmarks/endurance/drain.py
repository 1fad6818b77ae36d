"""SIGTERM under load: every request sent before the signal is answered, and the server exits with status 0."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient, distinct
from benchmarks.endurance.server import Served, ended

_ALLOWED = frozenset({"429", "503", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "closed"})
"""Permitted outcomes of a request that was sent after the signal: it is rejected or the connection is refused."""


async def drain(
    served: Served, requests: list[CheckedRequest], clients: int, seconds: float, grace: float
) -> dict[str, Any]:
    """Runs `clients` clients for `seconds`, then sends SIGTERM. Each client stops at its first rejected request."""
    stats, late = AttemptStats(), Counter[str]()
    client = CheckingClient(served.address, stats, 110.0)
    supply = distinct(requests)
    stopped: list[float] = []
    lost: Counter[str] = Counter()
    before = asyncio.gather(*(_client(client, supply, stopped, lost, late) for _ in range(clients)))
    await asyncio.sleep(seconds)
    in_flight = len(client.in_flight)
    stopped.append(time.monotonic())
    served.process.send_signal(signal.SIGTERM)
    await before
    answered = time.monotonic() - stopped[0]
    code = await ended(served.process, grace + 30)
    took = time.monotonic() - stopped[0]
    await client.close()
    logged = served.log_count('"route":"/translate","method":"POST","status":200') - len(requests)
    return {
        "clients": clients, "in flight at SIGTERM": in_flight, "lost": dict(lost), "sent after SIGTERM": dict(late),
        "last answer after, s": round(answered, 2), "exit status": code, "exit after, s": round(took, 2),
        "grace, s": grace, "answers": stats.answers, "wrong": stats.wrong, "repeated ids": stats.repeated_ids,
        "answers in the server's log": logged,
    }  # fmt: skip


async def _client(
    client: CheckingClient,
    supply: Iterator[CheckedRequest],
    stopped: list[float],
    lost: Counter[str],
    late: Counter[str],
) -> None:
    while True:
        began = time.monotonic()
        outcome = await client.send(next(supply))
        if stopped and began >= stopped[0]:
            late[outcome.status] += 1
            if outcome.status not in _ALLOWED | {"200"}:
                lost[outcome.status] += 1
        elif outcome.status == "429":  # refused, not lost
            await asyncio.sleep(outcome.retry_after if not stopped else 0)
        elif outcome.status != "200":
            lost[outcome.status] += 1
        if outcome.status != "200" and stopped:
            return
