"""Resident memory of a server over a run, and a soak: hours of mixed load with documents and
attention requests."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import linear_regression
from typing import Any

from benchmarks.common.http_connection import Address, Connection
from benchmarks.robustness.client import (
    AttemptStats,
    CheckedRequest,
    CheckingClient,
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


async def soak(
    served: Served, requests: list[CheckedRequest], clients: int, seconds: float
) -> dict[str, Any]:
    """Runs `clients` clients with single sentences, one that uploads documents and one that asks
    for attention, each with its next request after the answer to the last one."""
    stats, memory, others = AttemptStats(), Memory(), Counter[str]()
    client, end = CheckingClient(served.address, stats, 110.0), time.monotonic() + seconds
    before = await served.metrics()
    recording = asyncio.create_task(record_memory(served, memory))

    async def sentences(supply: Iterator[CheckedRequest]) -> None:
        while time.monotonic() < end:
            await client.send(next(supply))

    supply = distinct(requests)
    texts = [json.loads(request.body)["q"] for request in requests]
    await asyncio.gather(
        *(sentences(supply) for _ in range(clients)),
        _repeat(
            served.address, "POST", "/translate_file", text_file(texts, "en", "de"), end, others
        ),
        _repeat(
            served.address,
            "GET",
            "/attention?q=The+house+is+small.&source=en&target=de&kind=all",
            None,
            end,
            others,
        ),
    )
    recording.cancel()
    client.close()
    return {
        "clients": clients,
        "seconds": seconds,
        "answers": stats.answers,
        "answers/s": round(stats.answers / seconds, 1),
        "documents and attention": dict(others),
        "failures": stats.failures(),
        "wrong": stats.wrong,
        "repeated ids": stats.repeated_ids,
        "p99 ms": 1000 * stats.latency(0.99),
        "memory": memory.summary(),
        "restarts": growth(before, await served.metrics(), "attentive_worker_restarts_total"),
    }


async def _repeat(
    address: Address,
    method: str,
    path: str,
    form: tuple[str, bytes] | None,
    end: float,
    statuses: Counter[str],
) -> None:
    connection = Connection(address)
    media_type, body = form or ("application/json", b"")
    while time.monotonic() < end:
        try:
            status, _, _ = await connection.exchange(method, path, body, media_type)
            statuses[f"{path.split('?')[0]} {status}"] += 1
        except (OSError, EOFError) as error:
            statuses[f"{path.split('?')[0]} {type(error).__name__}"] += 1
        await asyncio.sleep(0.2)
    connection.close()


def text_file(lines: list[str], source: str, target: str) -> tuple[str, bytes]:
    """Returns the media type and the body of an uploaded text file."""
    fields = "".join(
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("source", source), ("target", target))
    )
    part = '--edge\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    text = "\n".join(lines)
    return "multipart/form-data; boundary=edge", f"{fields}{part}{text}\r\n--edge--\r\n".encode()


def _per_minute(times: list[float], values: list[float]) -> float:
    """Returns the slope of the values in MB per minute; 0 for fewer than two."""
    return round(60 * linear_regression(times, values).slope, 3) if len(times) > 1 else 0.0
