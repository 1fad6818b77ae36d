"""One caller with as much work as it can send, beside clients with single sentences: their refusals and latency."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from benchmarks.common.http_connection import Address
from benchmarks.robustness.client import AttemptStats, CheckedRequest, CheckingClient, distinct, made_texts
from benchmarks.robustness.memory import text_file
from benchmarks.robustness.server import Served

OTHER_ADDRESS = "127.0.0.2"
"""Address of a hog that is another caller than the clients."""
HEAD_START = 0.3
"""Seconds by which the hog's first request comes before those of the clients."""
LARGEST_WAIT = 5.0
"""Longest pause of a hog after a 429, in seconds."""
FRAGMENTS = {
    "newlines": "a\n", "tabs": "a\tb\t", "backslashes": "\\", "braces": "{", "quotes": '"a" ', "labels": "a. ", "calls": "a! ",
    "addresses": "a@b.", "links": "https://a.b/", "kana": "はい。", "Japanese": "これはペンです。",
    "ICU": "{n,select,a{b}other{c}}",
    "Markdown": "# Head\n\n* **bold** and [link](http://a.b/c) `code`\n", "paragraphs": "<p>x</p>",
    "tags": "<a>x</a> ", "sentences in bold": "<b>the cat</b> sleeps. ", "words": "cat ",
}  # fmt: skip
"""Parts of texts that repeat them, by name: each is hard for some part of the preparation."""


@dataclass(frozen=True, slots=True)
class HogRequest:
    """A request that a hog repeats."""

    path: str
    media_type: str
    body: bytes


def hog_requests(source: str, target: str) -> dict[str, HogRequest]:
    """Returns the kinds of hogs by name."""
    sentences = made_texts(5_000, seed=2)
    prose = " ".join(sentences)
    plain = prose.translate(str.maketrans("", "", ".?!"))

    def translate(text: str, beam: int, **fields: object) -> HogRequest:
        body = json.dumps({"q": text, "source": source, "target": target, "beam_size": beam, **fields}).encode()
        return HogRequest("/translate", "application/json", body)

    kept = [f"{'cat ' * count}{last}" for count in range(1, 49) for last in ("dog", "cow")]
    repeated = {
        f"repeated {name}, 99,000 characters": translate(
            (fragment * 99_000)[:99_000],
            1,
            format="html" if fragment.startswith("<") else "text",
            do_not_translate=kept if name == "words" else [],
        )
        for name, fragment in FRAGMENTS.items()
    }

    return {
        "99,000 characters, beam 32": translate(prose[:99_000], 32),
        "50,000 characters, beam 4": translate(prose[:50_000], 4),
        "50,000 characters without punctuation, beam 4": translate(plain[:50_000], 4),
        "file of one line, 0.95 MB": HogRequest("/translate_file", *text_file([(prose * 4)[:950_000]], source, target)),
        "file of many lines, 0.95 MB": HogRequest("/translate_file", *text_file(sentences * 3, source, target)),
        **repeated,
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
    """Measures each kind of hog whose name contains `kinds` beside `clients` clients for `seconds`. The hog has the clients'
    address, or another one; it waits at most `patience` seconds for an answer."""
    figures: dict[str, Any] = {"clients": clients, "refused": 0, "failures": Counter(), "wrong": 0}

    async def run() -> AttemptStats:
        return await _clients(served.address, requests, clients, seconds)

    await run()
    for kind, request in hog_requests(source, target).items():
        if kinds not in kind:
            continue
        for name, address in (("same address", ""), ("another address", OTHER_ADDRESS)):
            alone, statuses = await run(), Counter[str]()
            task = asyncio.create_task(_hog(served.address, address, request, patience, statuses))
            await asyncio.sleep(HEAD_START)
            beside = await run()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await _settled(served)
            figures[f"{kind}: {name}"] = row = {
                "answers": beside.answers,
                "refused": beside.statuses["429"],
                "p99 ms": round(1000 * beside.latency(0.99), 1),
                "p99 ms without": round(1000 * alone.latency(0.99), 1),
                "ratio": round(beside.latency(0.99) / max(1e-9, alone.latency(0.99)), 2),
                "hog": dict(statuses),
            }
            print(f"{kind}: {name}: {row}", file=sys.stderr, flush=True)
            figures["refused"] += beside.statuses["429"]
            figures["failures"] += beside.failures()
            figures["wrong"] += beside.wrong
    return figures


async def _clients(address: Address, requests: list[CheckedRequest], clients: int, seconds: float) -> AttemptStats:
    """Runs clients that send their next request after each answer. A rejected client waits for its Retry-After."""
    stats, end, supply = AttemptStats(), time.monotonic() + seconds, distinct(requests)
    pool = CheckingClient(address, stats, 60.0)

    async def client() -> None:
        while (left := end - time.monotonic()) > 0:
            outcome = await pool.send(next(supply))
            if outcome.status == "429":
                await asyncio.sleep(min(outcome.retry_after, left))

    await asyncio.gather(*(client() for _ in range(clients)))
    pool.close()
    return stats


async def _hog(address: Address, own: str, request: HogRequest, patience: float, statuses: Counter[str]) -> None:
    """Sends the request after each answer to the last one. When cancelled it closes its connection."""
    while True:
        connection = http.client.HTTPConnection(
            address.host, address.port, timeout=patience, source_address=(own, 0) if own else None
        )
        try:
            status, wait = await asyncio.to_thread(_exchange, connection, request)
        except asyncio.CancelledError:
            if connection.sock is not None:
                connection.sock.shutdown(2)
            statuses["in progress"] += 1
            raise
        finally:
            connection.close()
        statuses[status] += 1
        await asyncio.sleep(min(LARGEST_WAIT, wait))


def _exchange(connection: http.client.HTTPConnection, request: HogRequest) -> tuple[str, int]:
    """Returns the status, or the kind of failure, and the Retry-After: 0 without one, 1 after a failure."""
    try:
        headers = {"Content-Type": request.media_type, "Cache-Control": "no-cache"}  # every request is work
        connection.request("POST", request.path, request.body, headers)
        answer = connection.getresponse()
        answer.read()
        return str(answer.status), int(answer.headers.get("Retry-After", "0"))
    except (TimeoutError, OSError, http.client.HTTPException) as error:
        return type(error).__name__, 1


async def _settled(served: Served) -> None:
    """Waits until nothing is accepted and unanswered, at most 20 seconds."""
    for _ in range(100):
        if not (await served.metrics())["attentive_queue_requests"]:
            return
        await asyncio.sleep(0.2)
