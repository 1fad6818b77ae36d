"""SIGTERM in the middle of the traffic: what was sent before is answered, and the server ends with status 0."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.endurance.client import Asker, Ledger, Question, distinct
from benchmarks.endurance.server import Served, ended

_LEFT = frozenset({"429", "503", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "closed"})
"""What may come of a request that was sent after the signal: the server says so, or does not take it."""


async def drain(
    served: Served, questions: list[Question], clients: int, seconds: float, grace: float
) -> dict[str, Any]:
    """`clients` clients for `seconds`, then SIGTERM; each client leaves when it is turned away."""
    ledger, late = Ledger(), Counter[str]()
    asker = Asker(served.address, ledger, 110.0)
    supply = distinct(questions)
    stopped: list[float] = []
    lost: Counter[str] = Counter()
    before = asyncio.gather(*(_client(asker, supply, stopped, lost, late) for _ in range(clients)))
    await asyncio.sleep(seconds)
    under_way = len(asker.waiting)
    stopped.append(time.monotonic())
    served.process.send_signal(signal.SIGTERM)
    await before
    answered = time.monotonic() - stopped[0]
    code = await ended(served.process, grace + 30)
    took = time.monotonic() - stopped[0]
    await asker.close()
    logged = served.said('"route": "/translate", "method": "POST", "status": 200') - len(questions)
    return {
        "clients": clients, "in flight at SIGTERM": under_way, "lost": dict(lost), "sent after SIGTERM": dict(late),
        "last answer after, s": round(answered, 2), "exit status": code, "exit after, s": round(took, 2),
        "grace, s": grace, "answers": ledger.answers, "wrong": ledger.wrong, "repeated ids": ledger.repeated_ids,
        "answers in the server's log": logged,
    }  # fmt: skip


async def _client(
    asker: Asker, supply: Iterator[Question], stopped: list[float], lost: Counter[str], late: Counter[str]
) -> None:
    while True:
        began = time.monotonic()
        outcome = await asker.ask(next(supply))
        if stopped and began >= stopped[0]:
            late[outcome.status] += 1
            if outcome.status not in _LEFT | {"200"}:
                lost[outcome.status] += 1
        elif outcome.status == "429":  # refused, not lost
            await asyncio.sleep(outcome.retry_after if not stopped else 0)
        elif outcome.status != "200":
            lost[outcome.status] += 1
        if outcome.status != "200" and stopped:
            return
