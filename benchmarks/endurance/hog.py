"""One caller with as much work as it can send, beside clients with single sentences: their refusals and latency."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.common.http_connection import Address
from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient, distinct
from benchmarks.endurance.server import Served
from benchmarks.endurance.texts import made_texts

OTHER_ADDRESS = "127.0.0.2"
"""Address of a hog that is another caller than the clients."""
HEAD_START = 0.3
"""Seconds by which the hog's request comes before those of the clients."""
LARGEST_WAIT = 5.0
"""A hog waits at most so many seconds after a 429."""
SENTENCES = made_texts(5_000, seed=2)


@dataclass(frozen=True, slots=True)
class HogRequest:
    """A request of a hog. `finishes` tells that it is legal and small enough to wait for its answer. With `dropped`,
    the hog closes the connection at half of the time."""

    path: str
    media_type: str
    body: bytes
    finishes: bool = False
    dropped: bool = False


@dataclass(slots=True)
class HogStats:
    """The statuses that the hog received, and the seconds of each 200."""

    statuses: Counter[str]
    seconds: list[float]


def hog_requests(source: str, target: str) -> dict[str, HogRequest]:
    """Returns the kinds of hogs by name."""

    def translate(text: str, beam: int, **options: bool) -> HogRequest:
        body = json.dumps({"q": text, "source": source, "target": target, "beam_size": beam}).encode()
        return HogRequest("/translate", "application/json", body, **options)

    def file(text: str) -> HogRequest:
        fields = "".join(
            f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in (("source", source), ("target", target))
        )
        part = '--edge\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        body = f"{fields}{part}{text}\r\n--edge--\r\n".encode()
        return HogRequest("/translate_file", "multipart/form-data; boundary=edge", body)

    prose = " ".join(SENTENCES)
    return {
        "99,000 characters, beam 32, dropped": translate(prose[:99_000], 32, dropped=True),
        "99,000 characters, beam 32": translate(prose[:99_000], 32),
        "50,000 characters, beam 4": translate(prose[:50_000], 4, finishes=True),
        "50,000 characters without punctuation, beam 4": translate(
            prose.replace(".", "").replace("?", "").replace("!", "")[:50_000], 4, finishes=True
        ),
        "file of one line, 0.95 MB": file((prose * 4)[:950_000]),
        "file of many lines, 0.95 MB": file(("\n".join(SENTENCES) * 4)[:950_000]),
    }


async def hog(
    served: Served,
    requests: list[CheckedRequest],
    source: str,
    target: str,
    clients: int,
    seconds: float,
    patience: float,
    kinds: str,
) -> dict[str, Any]:
    """Measures each kind of hog that contains `kinds` beside `clients` clients, for `seconds` each and until a legal hog
    has finished, at most `patience` seconds. The hog has the clients' address, or another one."""
    supply = distinct(requests)
    found: dict[str, Any] = {"clients": clients, "seconds": seconds, "refused": 0, "failures": Counter(), "wrong": 0}
    await _clients(served.address, supply, clients, 2.0)
    before = await _clients(served.address, supply, clients, seconds)
    for kind, request in hog_requests(source, target).items():
        if kinds not in kind:
            continue
        if request.finishes:
            alone = HogStats(Counter(), [])
            await _hog(served.address, "", request, patience, alone)
            found[f"{kind}: alone"] = _of_hog(alone)
            print(f"{kind}: alone: {_of_hog(alone)}", file=sys.stderr, flush=True)
        for name, address in (("same address", ""), ("another address", OTHER_ADDRESS)):
            stats = HogStats(Counter(), [])
            task = asyncio.create_task(
                _hog(served.address, address, request, seconds / 2 if request.dropped else patience, stats)
            )
            await asyncio.sleep(HEAD_START)
            beside = await _clients(
                served.address, supply, clients, seconds, patience, task if request.finishes else None
            )
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await _settled(served)
            after = await _clients(served.address, supply, clients, seconds)
            found[f"{kind}: {name}"] = _row([before, after], beside) | _of_hog(stats)
            print(f"{kind}: {name}: {found[f'{kind}: {name}']}", file=sys.stderr, flush=True)
            before = after
            found["refused"] += beside.statuses["429"]
            found["failures"] += beside.failures()
            found["wrong"] += beside.wrong
    return found


def _row(without: list[AttemptStats], beside: AttemptStats) -> dict[str, Any]:
    """Returns the figures of the clients; `without` was measured before and after, without the hog."""
    alone = AttemptStats(seconds=without[0].seconds + without[1].seconds).latency(0.99)
    return {
        "answers": beside.answers, "refused": beside.statuses["429"], "p50 ms": round(1000 * beside.latency(0.5), 1),
        "p99 ms": round(1000 * beside.latency(0.99), 1), "p99 ms without": round(1000 * alone, 1),
        "ratio": round(beside.latency(0.99) / alone, 2) if alone and beside.answers else None,
    }  # fmt: skip


def _of_hog(stats: HogStats) -> dict[str, Any]:
    return {"hog": dict(stats.statuses), "hog's answers, s": [round(seconds, 1) for seconds in stats.seconds]}


async def _clients(
    address: Address,
    supply: Iterator[CheckedRequest],
    clients: int,
    seconds: float,
    longest: float = 0.0,
    until: asyncio.Task[None] | None = None,
) -> AttemptStats:
    """Runs clients that send their next request after each answer, for `seconds`, and on until a task has ended, at most
    `longest` seconds. A rejected client waits for its Retry-After."""
    stats, began = AttemptStats(), time.monotonic()
    pool = CheckingClient(address, stats, 60.0)

    def running() -> bool:
        passed = time.monotonic() - began
        return passed < seconds or (until is not None and not until.done() and passed < longest)

    async def client() -> None:
        while running():
            outcome = await pool.send(next(supply))
            if outcome.status == "429":
                left = seconds - (time.monotonic() - began)
                await asyncio.sleep(max(0.0, min(outcome.retry_after, left)))

    await asyncio.gather(*(client() for _ in range(clients)))
    await pool.close()
    return stats


async def _hog(address: Address, own: str, request: HogRequest, longest: float, stats: HogStats) -> None:
    """Sends the request once, or again and again if it is not `finishes` or `dropped`."""
    while True:
        began = time.monotonic()
        connection = http.client.HTTPConnection(
            address.host, address.port, timeout=longest, source_address=(own, 0) if own else None
        )
        try:
            status, retry_after = await asyncio.to_thread(_exchange, connection, request)
        except asyncio.CancelledError:
            if connection.sock is not None:
                connection.sock.shutdown(2)
            stats.statuses["in progress"] += 1
            raise
        finally:
            connection.close()
        stats.statuses[status] += 1
        if status == "200":
            stats.seconds.append(time.monotonic() - began)
        if request.dropped or (request.finishes and status != "429"):
            return
        await asyncio.sleep(min(LARGEST_WAIT, retry_after))


def _exchange(connection: http.client.HTTPConnection, request: HogRequest) -> tuple[str, int]:
    """Returns the status, or the kind of failure, and the Retry-After or 1."""
    try:
        headers = {"Content-Type": request.media_type, "Cache-Control": "no-cache"}  # every request is work
        connection.request("POST", request.path, request.body, headers)
        answer = connection.getresponse()
        answer.read()
        return str(answer.status), int(answer.headers.get("Retry-After", "1"))
    except (TimeoutError, OSError, http.client.HTTPException) as error:
        return "dropped" if isinstance(error, TimeoutError) else type(error).__name__, 1


async def _settled(served: Served) -> None:
    """Waits until nothing is accepted and unanswered, at most 20 seconds."""
    for _ in range(100):
        if not (await served.metrics())["attentive_queue_requests"]:
            return
        await asyncio.sleep(0.2)
