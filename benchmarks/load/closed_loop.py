"""Closed-loop load: each client sends its next request when the answer to its last one is there."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from benchmarks.common.http_connection import Address, Connection


@dataclass(frozen=True, slots=True)
class Job:
    """One request: its body, the number of sentences in it, and which text of the pool it is."""

    body: bytes
    sentences: int
    text: int


@dataclass(frozen=True, slots=True)
class Answer:
    """How one request ended. `translation` is None when it failed; `error` then says how. Times are seconds."""

    job: Job
    seconds: float
    translation: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Round:
    """All answers of one round and the time from its first request to its last answer, seconds."""

    answers: tuple[Answer, ...]
    seconds: float

    @property
    def sentences_per_second(self) -> float:
        """Sentences answered correctly in time."""
        return sum(a.job.sentences for a in self.answers if a.error is None) / self.seconds

    @property
    def errors(self) -> int:
        """Requests that were not answered with a translation."""
        return sum(answer.error is not None for answer in self.answers)

    def latency(self, share: float) -> float:
        """Quantile of the latencies of all answers in seconds, nearest rank; 0 when there are none."""
        times = sorted(answer.seconds for answer in self.answers)
        return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0


def jobs(
    texts: Sequence[str],
    sentences: int,
    source: str,
    target: str,
    beam_size: int | None,
    more: Mapping[str, object] | None = None,
) -> Iterator[Job]:
    """Requests over the texts, in order and again from the start, so that no two clients send the same text at once.
    `more` are further fields of each."""
    bodies: list[Job] = []
    for number, text in enumerate(texts):
        fields: dict[str, object] = {"q": text, "source": source, "target": target, "format": "text"}
        if beam_size is not None:
            fields["beam_size"] = beam_size
        bodies.append(Job(json.dumps(fields | dict(more or {})).encode(), sentences, number))
    return (bodies[number % len(bodies)] for number in count())


def documents(sentences: Sequence[str], length: int, paragraph: int = 5) -> list[str]:
    """Texts of `length` sentences each, `paragraph` sentences to a line."""
    whole = [sentences[at : at + length] for at in range(0, len(sentences) - length + 1, length)]
    return [
        "\n".join(" ".join(lines[at : at + paragraph]) for at in range(0, length, paragraph)) for lines in whole
    ]


async def run(address: Address, pool: Iterator[Job], clients: int, seconds: float, patience: float) -> Round:
    """`clients` clients for `seconds`. Requests in flight at the end are awaited and counted, and so is their time; an answer
    that takes longer than `patience` seconds is an error."""
    answers: list[Answer] = []
    began = time.perf_counter()
    deadline = began + seconds

    async def client() -> None:
        connection = Connection(address)
        while time.perf_counter() < deadline:
            answers.append(await _ask(connection, next(pool), patience))
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return Round(tuple(answers), time.perf_counter() - began)


async def _ask(connection: Connection, job: Job, patience: float) -> Answer:
    began = time.perf_counter()
    translation, error = None, None
    try:
        status, body = await asyncio.wait_for(connection.post("/translate", job.body), patience)
        if status == 200:
            translation = str(json.loads(body)["translatedText"])
        else:
            error = str(status)
            await asyncio.sleep(0.05)  # a client that was told to slow down, or failed, does not come back at once
    except TimeoutError:
        error = "timeout"
    except (OSError, EOFError, ValueError, KeyError, asyncio.LimitOverrunError) as problem:
        error = type(problem).__name__
        await asyncio.sleep(0.05)
    return Answer(job, time.perf_counter() - began, translation, error)
