"""Load above the capacity of the server, with retries after Retry-After; and repeated kill -9 of the
worker under load, after which every request is still answered correctly, only later."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import linear_regression
from typing import Any

from benchmarks.robustness.client import (
    AttemptStats,
    CheckedRequest,
    CheckingClient,
    closed_loop,
    distinct,
    growth,
)
from benchmarks.robustness.server import Served, resident_megabytes

SAMPLE_SECONDS = 2.0
SETTLED = 0.2
"""Share of a run in which memory and queue still fill up. Slopes and the later p99 exclude it."""


@dataclass(slots=True)
class Memory:
    """Resident megabytes of the API process and of the worker over time."""

    times: list[float] = field(default_factory=list)
    api: list[float] = field(default_factory=list)
    worker: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Returns the slopes in MB per minute over the settled part of the run, and the first,
        settled and last values."""
        first = int(SETTLED * len(self.times))
        figures = {}
        for name, values in (("API", self.api), ("worker", self.worker)):
            figures[f"{name} MB per minute"] = _per_minute(self.times[first:], values[first:])
            figures[f"{name} MB"] = [round(values[i], 1) for i in (0, first, -1)]  # type: ignore[assignment]
        return figures


async def record_memory(served: Served, memory: Memory) -> None:
    """Records the memory until the task is cancelled."""
    worker = await served.worker()
    while True:
        api, model = resident_megabytes(served.process.pid), resident_megabytes(worker)
        if api is not None and model is not None:
            memory.times.append(time.monotonic())
            memory.api.append(api)
            memory.worker.append(model)
        await asyncio.sleep(SAMPLE_SECONDS)


def _per_minute(times: list[float], values: list[float]) -> float:
    """Returns the slope of the values in MB per minute; 0 for fewer than two."""
    return round(60 * linear_regression(times, values).slope, 3) if len(times) > 1 else 0.0


@dataclass(slots=True)
class Retries:
    """Retries of rejected clients after the stated Retry-After, by the number of the retry."""

    sent: Counter[int] = field(default_factory=Counter)
    accepted: Counter[int] = field(default_factory=Counter)
    retry_after: Counter[int] = field(default_factory=Counter)
    """Retry-After of every 429, in seconds."""

    def first_accepted_share(self) -> float | None:
        """Returns the share of first retries that were accepted, or None without retries."""
        return self.accepted[1] / self.sent[1] if self.sent[1] else None


class Overload:
    """Open-loop load: requests are sent at random times, independent of answers. A retry replaces a
    new request, so that retries are part of the load and do not add to it."""

    def __init__(
        self,
        client: CheckingClient,
        requests: Iterator[CheckedRequest],
        retry_share: float,
        seed: int = 1,
    ) -> None:
        self._client, self._requests = client, requests
        self._retry_share = retry_share
        self._rng = random.Random(seed)
        self._due: list[tuple[float, int, CheckedRequest, int]] = []
        self.retries = Retries()
        self.sent = 0
        self.latest = 0.0
        """Largest delay of the load generator in seconds."""

    async def run(self, rate: float, seconds: float) -> None:
        """Sends `rate` requests per second at random times and returns when all are answered."""
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

    def _next(self) -> tuple[CheckedRequest, int]:
        """Returns the next request and its retry number; due retries come before new requests."""
        if self._due and self._due[0][0] <= time.monotonic():
            _, _, request, tries = heapq.heappop(self._due)
            return request, tries
        return next(self._requests), 0

    async def _attempt(self, request: CheckedRequest, tries: int) -> None:
        outcome = await self._client.send(request)
        if tries:
            self.retries.sent[tries] += 1
            self.retries.accepted[tries] += outcome.status == "200"
        if outcome.status == "429":
            self.retries.retry_after[outcome.retry_after] += 1
            if tries or self._rng.random() < self._retry_share:
                due = time.monotonic() + outcome.retry_after
                heapq.heappush(self._due, (due, self.sent, request, tries + 1))


async def overload(
    served: Served, requests: list[CheckedRequest], options: argparse.Namespace
) -> dict[str, Any]:
    """Measures the capacity of the server, sends `factor` times that load for `seconds`, and
    measures the capacity again: that of a virtual machine changes."""
    supply = distinct(requests)
    warm_client = CheckingClient(served.address, AttemptStats(), 60.0)

    async def capacity() -> float:
        """Returns answers per second. A 429 is soon sent again: after an overload the server keeps
        room for those that it told to return."""
        measured = min(20.0, max(5.0, options.seconds / 10))
        await closed_loop(warm_client, supply, options.clients, 2.0, 0.1)
        result = await closed_loop(warm_client, supply, options.clients, measured, 0.1)
        if failures := warm_client.stats.failures():
            raise RuntimeError(f"While its capacity was measured, the server answered {failures}.")
        return result

    capacities = [await capacity()]
    stats, memory = AttemptStats(), Memory()
    before = await served.metrics()
    client = CheckingClient(served.address, stats, 110.0)
    load = Overload(client, supply, options.patient)
    memory_task = asyncio.create_task(record_memory(served, memory))
    began, processor = time.monotonic(), time.process_time()
    await load.run(options.factor * capacities[0], options.seconds)
    elapsed, processor = time.monotonic() - began, time.process_time() - processor
    memory_task.cancel()
    after = await served.metrics()
    client.close()
    capacities.append(await capacity())
    warm_client.close()
    settled = int(SETTLED * stats.answers)
    rejected = growth(before, after, "attentive_requests_rejected_total")
    return {
        "capacity before and after, answers/s": [round(each, 1) for each in capacities],
        "clients of the capacity": options.clients,
        "attempts/s": round(load.sent / options.seconds, 1),
        "patient": options.patient,
        "attempts": load.sent,
        "answers/s of the mean capacity": round(2 * stats.answers / elapsed / sum(capacities), 3),
        "generator behind, s": round(load.latest, 2),
        "generator's processor time, ms per attempt": round(1000 * processor / load.sent, 3),
        "accepted p50 ms": 1000 * stats.latency(0.5, settled),
        "accepted p99 ms": 1000 * stats.latency(0.99, settled),
        "accepted p99 ms of the first fifth": 1000 * _first(stats, settled).latency(0.99),
        "accepted slowest ms": 1000 * stats.latency(1.0),
        "first retries": load.retries.sent[1],
        "accepted share of first retries": load.retries.first_accepted_share(),
        "retries": dict(sorted(load.retries.sent.items())),
        "accepted, by retry": dict(sorted(load.retries.accepted.items())),
        "Retry-After of the 429s": dict(sorted(load.retries.retry_after.items())),
        "refusals counted minus 429s": rejected - stats.statuses["429"],
        "shared computations": growth(before, after, "attentive_requests_shared_total"),
        "memory": memory.summary(),
        **_figures(stats, elapsed, before, after, options.sentences),
    }


async def kills(
    served: Served, requests: list[CheckedRequest], options: argparse.Namespace
) -> dict[str, Any]:
    """Runs `clients` clients for `seconds`, and kills the worker every `every` seconds."""
    stats, killed = AttemptStats(), list[int]()
    client = CheckingClient(served.address, stats, 110.0)
    before = await served.metrics()
    began = time.monotonic()
    killing = asyncio.create_task(_kill(served, client, options.every, killed))
    await closed_loop(client, distinct(requests), options.clients, options.seconds)
    elapsed = time.monotonic() - began
    killing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await killing
    client.close()
    await served.until_ready()
    after = await served.metrics()
    return {
        "clients": options.clients,
        "kills": len(killed),
        "in flight at each kill": killed,
        "restarts": growth(before, after, "attentive_worker_restarts_total"),
        "p50 ms": 1000 * stats.latency(0.5),
        "p99 ms": 1000 * stats.latency(0.99),
        "slowest ms": 1000 * stats.latency(1.0),
        **_figures(stats, elapsed, before, after, options.sentences),
    }


def _figures(
    stats: AttemptStats, seconds: float, before: Counter[str], after: Counter[str], sentences: int
) -> dict[str, Any]:
    """Returns what both runs count; each request has `sentences` sentences."""
    translated = growth(before, after, "attentive_request_success_total")
    return {
        "seconds": round(seconds, 1),
        "answers": stats.answers,
        "answers/s": round(stats.answers / seconds, 1),
        "statuses": dict(stats.statuses),
        "failures": stats.failures(),
        "wrong": stats.wrong,
        "repeated ids": stats.repeated_ids,
        "metrics minus clients": stats.differences(before, after),
        "sentences translated twice or in vain": translated - sentences * stats.answers,
    }


async def _kill(served: Served, client: CheckingClient, every: float, killed: list[int]) -> None:
    """Kills the worker every `every` seconds and records how many requests were in flight."""
    while True:
        await asyncio.sleep(every)
        worker = await served.worker()
        if worker is not None:
            killed.append(len(client.in_flight))
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


def _first(stats: AttemptStats, answers: int) -> AttemptStats:
    return AttemptStats(seconds=stats.seconds[:answers])
