"""Closed-loop load: each client sends its next request after the answer to its last one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count

from benchmarks.common.http_connection import Address, Connection

_PAUSE_SECONDS = 0.05
"""Pause of a client after a request that failed."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request: its body and the index of its text."""

    body: bytes
    text: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of one request. After a failure `translation` is None and `error` is the reason. Times
    are in seconds."""

    job: Job
    seconds: float
    translation: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Round:
    """All answers of one round, and the seconds from its first request to its last answer."""

    answers: tuple[Answer, ...]
    seconds: float

    @property
    def sentences_per_second(self) -> float:
        """Successfully translated sentences per second."""
        return sum(answer.error is None for answer in self.answers) / self.seconds

    @property
    def errors(self) -> int:
        """Number of requests that were not answered with a translation."""
        return sum(answer.error is not None for answer in self.answers)

    def latency(self, share: float) -> float:
        """Returns the quantile `share` of all latencies in seconds (nearest rank), or 0 without
        answers."""
        times = sorted(answer.seconds for answer in self.answers)
        return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0


def jobs(
    texts: Sequence[str],
    source: str,
    target: str,
    beam_size: int | None,
    more: Mapping[str, object] | None = None,
    is_html: bool = False,
) -> Iterator[Job]:
    """Yields requests over the texts in an endless cycle, so that no two clients send the same text
    at the same time. `more` contains further fields of each request. With `is_html` each text has
    one or two tags."""
    bodies: list[Job] = []
    for number, text in enumerate(texts):
        q, form = (marked(text, number), "html") if is_html else (text, "text")
        fields: dict[str, object] = {"q": q, "source": source, "target": target, "format": form}
        if beam_size is not None:
            fields["beam_size"] = beam_size
        bodies.append(Job(json.dumps(fields | dict(more or {})).encode(), number))
    return (bodies[number % len(bodies)] for number in count())


def marked(text: str, number: int) -> str:
    """Returns a text as HTML: a word in the middle is bold, and the first word of every second text
    is a link."""
    words = [escape(word, quote=False) for word in text.split(" ")]
    middle = len(words) // 2
    words[middle] = f"<b>{words[middle]}</b>"
    if number % 2 and middle:
        words[0] = f'<a href="/{number}">{words[0]}</a>'
    return " ".join(words)


async def run(
    address: Address,
    pool: Iterator[Job],
    clients: int,
    seconds: float,
    timeout_seconds: float,
    cached: bool = False,
) -> Round:
    """Runs `clients` clients for `seconds`. Requests in flight at the end are awaited and counted,
    including their time. An answer that takes longer than `timeout_seconds` is an error. Unless
    `cached`, the server is asked to translate what is in its result cache too."""
    answers: list[Answer] = []
    began = time.perf_counter()
    deadline = began + seconds

    async def client() -> None:
        connection = Connection(address, cached)
        while time.perf_counter() < deadline:
            answer = await _send(connection, next(pool), timeout_seconds)
            answers.append(answer)
            if answer.error is not None:
                await asyncio.sleep(_PAUSE_SECONDS)
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return Round(tuple(answers), time.perf_counter() - began)


async def _send(connection: Connection, job: Job, timeout_seconds: float) -> Answer:
    began = time.perf_counter()
    translation, error = None, None
    try:
        status, body = await asyncio.wait_for(
            connection.post("/translate", job.body), timeout_seconds
        )
        if status == 200:
            translation = str(json.loads(body)["translatedText"])
        else:
            error = str(status)
    except TimeoutError:
        error = "timeout"
    except (OSError, EOFError, ValueError, KeyError, asyncio.LimitOverrunError) as problem:
        error = type(problem).__name__
    return Answer(job, time.perf_counter() - began, translation, error)
