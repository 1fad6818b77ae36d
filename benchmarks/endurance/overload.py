"""Twice as many requests as the server can take: who gets in, how long it takes, who is told to come back and does."""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.endurance.client import Asker, Ledger, Question, closed_loop, distinct, growth
from benchmarks.endurance.server import Served, resident_megabytes

_SAMPLE_SECONDS = 2.0
_SETTLED = 0.2
"""The first share of the run, in which memory and queue still fill; slopes and the later p99 leave it out."""


@dataclass(slots=True)
class Returns:
    """Clients who were refused and came back when they were told to, by the number of their return."""

    came: Counter[int] = field(default_factory=Counter)
    got_in: Counter[int] = field(default_factory=Counter)
    told: Counter[int] = field(default_factory=Counter)
    """Seconds of Retry-After, of every 429."""

    def share(self) -> float | None:
        """Share that got in at the first return."""
        return self.got_in[1] / self.came[1] if self.came[1] else None


@dataclass(slots=True)
class Memory:
    """Resident megabytes of the API process and of the worker over time."""

    times: list[float] = field(default_factory=list)
    api: list[float] = field(default_factory=list)
    worker: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Slopes in MB per minute over the settled part of the run, and where they began and ended."""
        first = int(_SETTLED * len(self.times))
        found = {}
        for name, values in (("API", self.api), ("worker", self.worker)):
            found[f"{name} MB per minute"] = round(60 * slope(self.times[first:], values[first:]), 3)
            found[f"{name} MB"] = [round(values[i], 1) for i in (0, first, -1)]  # type: ignore[assignment]
        return found


class Overload:
    """Open-loop load: attempts come when they come, whether or not others were answered. A client that returns takes the
    place of a new one, so that returns are part of the load and do not add to it."""

    def __init__(self, asker: Asker, questions: Iterator[Question], patient: float, seed: int = 1) -> None:
        self._asker, self._questions = asker, questions
        self._patient = patient
        self._rng = random.Random(seed)
        self._due: list[tuple[float, int, Question, int]] = []
        self.returns = Returns()
        self.sent = 0
        self.latest = 0.0
        """Seconds by which the load generator was behind at worst."""

    async def run(self, rate: float, seconds: float) -> None:
        """`rate` attempts a second, at random moments; returns when all are answered."""
        began = moment = time.monotonic()
        attempts: set[asyncio.Task[None]] = set()
        while moment < began + seconds:
            moment += self._rng.expovariate(rate)
            behind = time.monotonic() - moment
            self.latest = max(self.latest, behind)
            if behind < 0 or self.sent % 16 == 0:
                await asyncio.sleep(max(0.0, -behind))
            attempt = asyncio.create_task(self._attempt(*self._next()))
            attempts.add(attempt)
            attempt.add_done_callback(attempts.discard)
            self.sent += 1
        await asyncio.gather(*attempts)

    def _next(self) -> tuple[Question, int]:
        """Who is told to come back now comes first."""
        if self._due and self._due[0][0] <= time.monotonic():
            _, _, question, tries = heapq.heappop(self._due)
            return question, tries
        return next(self._questions), 0

    async def _attempt(self, question: Question, tries: int) -> None:
        outcome = await self._asker.ask(question)
        if tries:
            self.returns.came[tries] += 1
            self.returns.got_in[tries] += outcome.status == "200"
        if outcome.status == "429":
            self.returns.told[outcome.retry_after] += 1
            if tries or self._rng.random() < self._patient:
                due = time.monotonic() + outcome.retry_after
                heapq.heappush(self._due, (due, self.sent, question, tries + 1))


async def overload(
    served: Served, questions: list[Question], sentences: int, clients: int, seconds: float, factor: float,
    patient: float,
) -> dict[str, Any]:
    """Measure what the server can take, then send `factor` times that for `seconds`. A question has so many `sentences`."""
    supply = distinct(questions)
    first = Ledger()
    warming = Asker(served.address, first, 60.0)
    await closed_loop(warming, supply, clients, 2.0)
    capacity = await closed_loop(warming, supply, clients, min(20.0, max(3.0, seconds / 10)))
    await warming.close()
    ledger, memory = Ledger(), Memory()
    before = await served.metrics()
    asker = Asker(served.address, ledger, 110.0)
    load = Overload(asker, supply, patient)
    watching = asyncio.create_task(_watch(served, memory))
    began = time.monotonic()
    await load.run(factor * capacity, seconds)
    elapsed = time.monotonic() - began
    watching.cancel()
    after = await served.metrics()
    await asker.close()
    settled = int(_SETTLED * ledger.answers)
    return {
        "capacity, answers/s": round(capacity, 1), "clients of the capacity": clients,
        "attempts/s": round(load.sent / seconds, 1), "seconds": round(elapsed, 1), "patient": patient,
        "attempts": load.sent, "statuses": dict(ledger.statuses), "failures": ledger.failures(),
        "answers/s": round(ledger.answers / elapsed, 1), "wrong": ledger.wrong, "repeated ids": ledger.repeated_ids,
        "stray answers": ledger.stray, "generator behind, s": round(load.latest, 2),
        "accepted p50 ms": 1000 * ledger.latency(0.5, settled), "accepted p99 ms": 1000 * ledger.latency(0.99, settled),
        "accepted p99 ms of the first fifth": 1000 * _first(ledger, settled).latency(0.99),
        "accepted slowest ms": 1000 * ledger.latency(1.0),
        "first returns": load.returns.came[1], "share in at the first return": load.returns.share(),
        "returns": dict(sorted(load.returns.came.items())), "in, by return": dict(sorted(load.returns.got_in.items())),
        "Retry-After of the 429s": dict(sorted(load.returns.told.items())),
        "metrics minus clients": ledger.differences(before, after),
        "refusals counted minus 429s": growth(before, after, "attentive_requests_rejected_total")
        - ledger.statuses["429"],
        "sentences translated twice or in vain": growth(before, after, "attentive_request_success_total")
        - sentences * ledger.answers,
        "shared computations": growth(before, after, "attentive_requests_shared_total"),
        "memory": memory.summary(),
    }  # fmt: skip


async def _watch(served: Served, memory: Memory) -> None:
    worker = await served.worker()
    while True:
        api, model = resident_megabytes(served.process.pid), resident_megabytes(worker)
        if api is not None and model is not None:
            memory.times.append(time.monotonic())
            memory.api.append(api)
            memory.worker.append(model)
        await asyncio.sleep(_SAMPLE_SECONDS)


def _first(ledger: Ledger, answers: int) -> Ledger:
    return Ledger(seconds=ledger.seconds[:answers])


def slope(times: list[float], values: list[float]) -> float:
    """Least-squares slope of values over times; 0 for fewer than two."""
    if len(times) < 2:
        return 0.0
    mean_time, mean_value = sum(times) / len(times), sum(values) / len(values)
    spread = sum((moment - mean_time) ** 2 for moment in times)
    return sum((moment - mean_time) * (value - mean_value) for moment, value in zip(times, values, strict=True)) / spread
