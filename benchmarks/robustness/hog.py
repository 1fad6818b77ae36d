"""One caller with as much work as it can send, three requests at a time, beside clients with single
sentences, plain and with markup: their refusals and latency."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlencode

from benchmarks.common.http_connection import Address
from benchmarks.robustness.client import (
    AttemptStats,
    CheckedRequest,
    CheckingClient,
    closed_loop,
    distinct,
    made_texts,
)
from benchmarks.robustness.server import Served

OTHER_ADDRESS = "127.0.0.2"
"""Address of a hog that is another caller than the clients."""
IN_FLIGHT = 3
"""Requests that a hog has in flight."""
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
    method: str = "POST"


def text_file(lines: list[str], source: str, target: str) -> tuple[str, bytes]:
    """Returns the media type and the body of an uploaded text file."""
    fields = "".join(
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("source", source), ("target", target))
    )
    part = '--edge\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    text = "\n".join(lines)
    return "multipart/form-data; boundary=edge", f"{fields}{part}{text}\r\n--edge--\r\n".encode()


def hog_requests(source: str, target: str) -> dict[str, HogRequest]:
    """Returns the kinds of hogs by name."""
    sentences = made_texts(5_000, seed=2)
    prose = " ".join(sentences)
    plain = prose.translate(str.maketrans("", "", ".?!"))

    def translate(text: str, beam: int, **fields: object) -> HogRequest:
        body = json.dumps(
            {"q": text, "source": source, "target": target, "beam_size": beam, **fields}
        ).encode()
        return HogRequest("/translate", "application/json", body)

    kept = [f"{'cat ' * number}{last}" for number in range(1, 49) for last in ("dog", "cow")]
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
        "file of one line, 0.95 MB": HogRequest(
            "/translate_file", *text_file([(prose * 4)[:950_000]], source, target)
        ),
        "file of many lines, 0.95 MB": HogRequest(
            "/translate_file", *text_file(sentences * 3, source, target)
        ),
        **repeated,
        **_other_questions(sentences, source, target),
    }


def _other_questions(sentences: list[str], source: str, target: str) -> dict[str, HogRequest]:
    """Returns the kinds of hogs that ask for more than plain translations."""
    direction = {"source": source, "target": target}

    def post(path: str, **fields: object) -> HogRequest:
        return HogRequest(path, "application/json", json.dumps(direction | fields).encode())

    tagged = [marked(sentence) for sentence in sentences[:1_000]]
    long = " ".join(sentences).translate(str.maketrans("", "", ".?!"))[:2_000]
    attention = {"q": long, "kind": "cross", "layer": 0, "head": 0, **direction}

    def pictured(format: str, **fields: object) -> HogRequest:
        query = urlencode(attention | {"format": format} | fields)
        return HogRequest(f"/attention?{query}", "application/json", b"", "GET")

    terms = {word: word.upper() for sentence in sentences for word in sentence.strip(".?!").split()}
    return {
        "HTML, one text of 1,000 tagged sentences": post(
            "/translate", q=" ".join(tagged), format="html"
        ),
        "HTML, 1,000 texts of one tagged sentence": post("/translate", q=tagged, format="html"),
        "alternatives, 200 sentences": post(
            "/translate", q=sentences[:200], alternatives=3, beam_size=4
        ),
        "glossary of many terms, 200 sentences": post(
            "/translate", q=sentences[:200], glossary=dict([*terms.items()][:500])
        ),
        "alignments of 100 pairs": post("/align", pairs=[[each, each] for each in sentences[:100]]),
        "scores of 16 translations": post("/score", q=sentences[0], translation=sentences[:16]),
        "live translation": post("/live", q=sentences[0].rstrip(".?!")),
        "attention of a long sentence": pictured("json"),
        "PNG of a long sentence": pictured("png", width=4_000, dpi=100),
        "PDF of a long sentence": pictured("pdf"),
        "SVG of a long sentence": pictured("svg"),
        "report of a long sentence": pictured("html"),
    }


def marked(sentence: str) -> str:
    """Returns a sentence with its second word in bold."""
    first, second, *others = sentence.split(" ")
    return " ".join([first, f"<b>{second}</b>", *others])


async def hog(
    served: Served, requests: list[CheckedRequest], options: argparse.Namespace
) -> dict[str, Any]:
    """Measures each kind of hog whose name contains one of the `kinds`, which | separates, beside
    `clients` clients and one that sends markup for `seconds`, and these clients without the hog.
    The hog has the clients' address, or another one; it waits at most `patience` seconds for an
    answer."""
    source, target, patience = options.source, options.target, options.patience
    figures: dict[str, Any] = {"failures": Counter(), "refused": 0, "wrong": 0}
    figures["clients"] = options.clients

    async def send(supply: Iterator[CheckedRequest], clients: int) -> AttemptStats:
        pool = CheckingClient(served.address, AttemptStats(), 60.0)
        await closed_loop(pool, supply, clients, options.seconds)
        pool.close()
        return pool.stats

    async def run() -> tuple[AttemptStats, AttemptStats]:
        with_markup = _with_markup(requests, source, target)
        return await asyncio.gather(send(distinct(requests), options.clients), send(with_markup, 1))

    await run()
    for kind, request in hog_requests(source, target).items():
        if not any(part in kind for part in options.kinds.split("|")):
            continue
        without = await run()
        for name, address in (("same address", ""), ("another address", OTHER_ADDRESS)):
            statuses = Counter[str]()
            tasks = [
                asyncio.create_task(_hog(served.address, address, request, patience, statuses))
                for _ in range(IN_FLIGHT)
            ]
            await asyncio.sleep(HEAD_START)
            beside = await run()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _settled(served)
            row: dict[str, Any] = {"hog": dict(statuses)}
            for sent, stats, before in zip(("plain", "markup"), beside, without, strict=True):
                times = stats.latency(0.99), before.latency(0.99)
                row[sent] = {
                    "answers": stats.answers,
                    "refused": stats.statuses["429"],
                    "p99 ms": round(1000 * times[0], 1),
                    "without": round(1000 * times[1], 1),
                    "ratio": round(times[0] / max(1e-9, times[1]), 2),
                }
                figures["refused"] += stats.statuses["429"]
                figures["failures"] += stats.failures()
            figures[f"{kind}: {name}"] = row
            print(f"{kind}: {name}: {row}", file=sys.stderr, flush=True)
            figures["wrong"] += beside[0].wrong
    return figures


def _with_markup(
    requests: list[CheckedRequest], source: str, target: str
) -> Iterator[CheckedRequest]:
    """Yields requests for different single sentences with a tag, in an endless cycle."""
    for number in count():
        text = json.loads(requests[number % len(requests)].body)["q"]
        body = {"q": marked(f"{text} {number}."), "source": source, "target": target}
        yield CheckedRequest(json.dumps(body | {"format": "html"}).encode(), "")


async def _hog(
    address: Address, own: str, request: HogRequest, patience: float, statuses: Counter[str]
) -> None:
    """Sends the request after each answer to the last one. When cancelled it closes its
    connection."""
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
    """Returns the status, or the kind of failure, and the Retry-After: 0 without one, 1 after a
    failure."""
    try:
        # every request is work
        headers = {"Content-Type": request.media_type, "Cache-Control": "no-cache"}
        connection.request(request.method, request.path, request.body, headers)
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
