"""Requests that never arrive whole, beside single sentences: an endless head, many slow heads, unfinished bodies."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

from benchmarks.common.http_connection import Address
from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient
from benchmarks.endurance.server import Served, resident_megabytes
from server.cli.serve import allow_many_connections

_PIECE = b"a" * 100_000
_BODY_BYTES = 5_000_000
_CLIENTS = 2
_PAUSE_SECONDS = 0.05

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def heads(
    served: Served, requests: list[CheckedRequest], megabytes: int, connections: int, bodies: int, seconds: float
) -> dict[str, Any]:
    """Sends one head of `megabytes`, then opens `connections` with an unfinished head and holds them for `seconds`,
    then sends `bodies` of 5 MB without their last byte."""
    allow_many_connections()
    result: dict[str, Any] = {"memory before, MB": _megabytes(served)}
    supply = cycle(requests)
    async with _sentences(served, supply, "endless head", result):
        result["bytes sent of the endless head"], result["answer to the endless head"] = await _endless(
            served.address, megabytes
        )
    opened: list[Streams] = []
    async with _sentences(served, supply, "slow heads", result):
        for _ in range(connections):
            with contextlib.suppress(OSError):
                opened.append(await _begun(served.address, b"GET / HTTP/1.1\r\nX-Slow: a"))
        await asyncio.sleep(seconds)
    result["slow heads opened"] = len(opened)
    result["answers to slow heads"] = dict(await _answers(opened))
    opened = []
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % _BODY_BYTES
    async with _sentences(served, supply, "unfinished bodies", result):
        for _ in range(bodies):
            with contextlib.suppress(OSError):
                opened.append(await _begun(served.address, head))
                opened[-1][1].write(b" " * (_BODY_BYTES - 1))
                await asyncio.wait_for(opened[-1][1].drain(), seconds)
        await asyncio.sleep(1.0)
    result["answers to unfinished bodies"] = dict(await _answers(opened))
    await asyncio.sleep(1.0)
    return result | {"unfinished bodies": bodies, "memory after, MB": _megabytes(served)}


async def _endless(address: Address, megabytes: int) -> tuple[int, str]:
    """Returns the bytes that the server accepted of a head without an end, and its answer."""
    reader, writer = await _begun(address, b"GET / HTTP/1.1\r\nX-Endless: ")
    sent = 0
    with contextlib.suppress(OSError):
        while sent < 1_000_000 * megabytes and not reader.at_eof():
            writer.write(_PIECE)
            await writer.drain()
            sent += len(_PIECE)
    return sent, next(iter(await _answers([(reader, writer)])))


@asynccontextmanager
async def _sentences(
    served: Served, supply: Iterator[CheckedRequest], name: str, result: dict[str, Any]
) -> AsyncIterator[None]:
    """Sends sentences while the block runs, and adds their figures and the largest memory to `result`."""
    stats = AttemptStats()
    client = CheckingClient(served.address, stats, 60.0)
    stopped = False
    peak = 0.0

    async def send() -> None:
        nonlocal peak
        while not stopped:
            await client.send(next(supply))
            peak = max(peak, _megabytes(served))
            await asyncio.sleep(_PAUSE_SECONDS)

    work = [asyncio.create_task(send()) for _ in range(_CLIENTS)]
    began = time.monotonic()
    try:
        yield
    finally:
        stopped = True
        await asyncio.gather(*work)
        await client.close()
    result |= {
        f"{name}: seconds": round(time.monotonic() - began, 1),
        f"{name}: largest memory, MB": peak,
        f"{name}: sentences": stats.answers,
        f"{name}: p50, p99 ms": [round(1000 * stats.latency(share), 1) for share in (0.5, 0.99)],
    }
    result["failures"] = result.get("failures", Counter()) + stats.failures()
    result["wrong"] = result.get("wrong", 0) + stats.wrong


async def _begun(address: Address, data: bytes) -> Streams:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(data)
    return reader, writer


async def _answers(opened: list[Streams]) -> Counter[str]:
    """Returns how often each status was received; "open" counts connections without an answer. Closes all."""
    found: Counter[str] = Counter()
    for reader, writer in opened:
        try:
            line = await asyncio.wait_for(reader.readline(), 0.01)
            found[line.split(b" ")[1].decode() if line else "closed"] += 1
        except TimeoutError:
            found["open"] += 1
        except OSError:
            found["reset"] += 1
        writer.transport.abort()
    return found


def _megabytes(served: Served) -> float:
    """Returns the memory of the process that listens."""
    return round(resident_megabytes(served.process.pid) or 0.0)
