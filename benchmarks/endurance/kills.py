"""kill -9 of the worker, again and again, while clients ask: nobody may notice but by the time it takes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.endurance.client import Asker, Ledger, Question, distinct, growth
from benchmarks.endurance.server import Served


async def kills(
    served: Served, questions: list[Question], sentences: int, clients: int, seconds: float, every: float,
    requests: int,
) -> dict[str, Any]:
    """`clients` clients for `seconds`, or until each has sent `requests` (0: no such bound), and a kill each `every`
    seconds while they are there. A question has so many `sentences`."""
    ledger, killed = Ledger(), list[int]()
    asker = Asker(served.address, ledger, 110.0)
    before = await served.metrics()
    supply = distinct(questions)
    began = time.monotonic()
    killing = asyncio.create_task(_kill(served, asker, every, killed))
    await asyncio.gather(*(_client(asker, supply, began + seconds, requests) for _ in range(clients)))
    elapsed = time.monotonic() - began
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)
    await asker.close()
    await served.until_ready()
    after = await served.metrics()
    return {
        "clients": clients, "seconds": round(elapsed, 1), "kills": len(killed), "in flight at each kill": killed,
        "restarts": growth(before, after, "attentive_worker_restarts_total"),
        "answers": ledger.answers, "answers/s": round(ledger.answers / elapsed, 1), "statuses": dict(ledger.statuses),
        "failures": ledger.failures(), "wrong": ledger.wrong, "repeated ids": ledger.repeated_ids,
        "stray answers": ledger.stray, "p50 ms": 1000 * ledger.latency(0.5), "p99 ms": 1000 * ledger.latency(0.99),
        "slowest ms": 1000 * ledger.latency(1.0), "metrics minus clients": ledger.differences(before, after),
        "sentences translated twice or in vain": growth(before, after, "attentive_request_success_total")
        - sentences * ledger.answers,
    }  # fmt: skip


async def _client(asker: Asker, supply: Iterator[Question], end: float, requests: int) -> None:
    sent = 0
    while time.monotonic() < end and (not requests or sent < requests):
        await asker.ask(next(supply))
        sent += 1


async def _kill(served: Served, asker: Asker, every: float, killed: list[int]) -> None:
    """Strikes while the worker has something to do; notes how many requests were under way."""
    while True:
        await asyncio.sleep(every)
        worker = await served.worker()
        if worker is not None:
            killed.append(len(asker.waiting))
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
