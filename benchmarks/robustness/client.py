"""Clients of the endurance runs. Each compares an answer with the one that the same text got while
nothing else ran."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from benchmarks.common.http_connection import Address, Connection

_PARTS = (
    "The teacher|My brother|A friend of mine|The old man|Our neighbour|The doctor|Her sister",
    "is waiting|was sitting|wants to stay|has slept|will work|cannot eat|is reading a book",
    "at the station|in the garden|near the river|in front of the house|at school|in the kitchen",
    "today|every morning|since Monday|until the evening|when it rains|after the concert|again",
)
"""Parts of the sentences that are sent: who, does what, where, when."""
_IDLE_SECONDS = 30.0
_ROUTE = 'attentive_http_requests_total{{method="POST",route="/translate",status="{}"}}'


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """Body of a request and the expected translation."""

    body: bytes
    expected: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one attempt: the HTTP status as text, or the kind of connection failure; the
    duration in seconds; and the Retry-After of a 429 in seconds."""

    status: str
    seconds: float
    retry_after: int = 0


@dataclass(slots=True)
class AttemptStats:
    """Counts of everything that the clients received."""

    statuses: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    """Answers that differ from the reference."""
    seconds: array[float] = field(default_factory=lambda: array("d"))
    """Duration of each 200, in order of arrival."""
    ids: set[str] = field(default_factory=set)

    @property
    def answers(self) -> int:
        return self.statuses["200"]

    @property
    def repeated_ids(self) -> int:
        """Number of answers whose id another answer already had."""
        return self.answers - len(self.ids)

    def failures(self) -> Counter[str]:
        """Returns the attempts that ended neither in a translation nor in a 429, by kind."""
        return Counter(
            {kind: number for kind, number in self.statuses.items() if kind not in ("200", "429")}
        )

    def latency(self, share: float, since: int = 0) -> float:
        """Returns the quantile `share` of the durations (nearest rank) without the first `since`
        answers."""
        times = sorted(self.seconds[since:])
        return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0

    def differences(self, before: Counter[str], after: Counter[str]) -> dict[str, float]:
        """Returns the server's counts of POST /translate minus the clients', by status; empty when
        all agree."""
        kinds = {kind for kind in self.statuses if kind.isdigit()}
        kinds |= {"200", "429", "499", "500", "503", "504"}
        found = {
            kind: growth(before, after, _ROUTE.format(kind)) - self.statuses[kind]
            for kind in sorted(kinds)
        }
        return {kind: difference for kind, difference in found.items() if difference}


class CheckingClient:
    """Sends requests over a pool of connections and checks the answers. Belongs to one event loop.
    An answer that takes longer than `timeout` seconds counts as a hang."""

    def __init__(self, address: Address, stats: AttemptStats, timeout: float) -> None:
        self.stats = stats
        self._address, self._timeout = address, timeout
        self._idle: list[tuple[float, Connection]] = []
        self.in_flight: dict[int, float] = {}
        """Send time of each request in flight, by its number."""
        self._numbers = count()

    async def send(self, request: CheckedRequest) -> Outcome:
        """Sends one request and counts the outcome."""
        connection = self._connection()
        began, number = time.monotonic(), next(self._numbers)
        self.in_flight[number] = began
        retry_after = 0
        try:
            async with asyncio.timeout(self._timeout):
                code, headers, body = await connection.exchange("POST", "/translate", request.body)
            status, retry_after = str(code), int(headers.get(b"retry-after", b"0"))
            if code == 200:
                self._check(request, json.loads(body))
            self._idle.append((time.monotonic(), connection))
        except TimeoutError:
            status = "hang"
        except asyncio.IncompleteReadError as error:
            status = "broken off" if error.partial or error.expected else "closed"
        except OSError as error:
            status = type(error).__name__
        seconds = time.monotonic() - began
        del self.in_flight[number]
        self.stats.statuses[status] += 1
        if status == "200":
            self.stats.seconds.append(seconds)
        return Outcome(status, seconds, retry_after)

    def close(self) -> None:
        """Closes all connections."""
        for _, connection in self._idle:
            connection.close()
        self._idle = []

    def _connection(self) -> Connection:
        """Returns a recently used connection, because servers close idle ones, or a new one."""
        while self._idle:
            used, connection = self._idle.pop()
            if time.monotonic() - used < _IDLE_SECONDS:
                return connection
            connection.close()
        return Connection(self._address)

    def _check(self, request: CheckedRequest, answer: dict[str, str]) -> None:
        self.stats.wrong += answer["translatedText"] != request.expected
        self.stats.ids.add(answer["id"])


def made_texts(count: int, seed: int = 1) -> list[str]:
    """Returns `count` (at most 5,000) different English sentences of about ten words."""
    rng = random.Random(seed)
    parts = [part.split("|") for part in _PARTS]
    sentences: dict[str, None] = {}
    while len(sentences) < count:
        sentences[" ".join(rng.choice(part) for part in parts) + rng.choice(".?!")] = None
    return list(sentences)


def documents(texts: list[str], length: int) -> list[str]:
    """Returns texts of `length` sentences, one per line; each text starts with a different
    sentence."""
    return [
        "\n".join(texts[(at + i) % len(texts)] for i in range(length)) for at in range(len(texts))
    ]


async def references(
    address: Address, texts: Sequence[str], source: str, target: str
) -> list[CheckedRequest]:
    """Returns each text with its greedy translation, requested one at a time on an idle server.
    Raises RuntimeError for any status except 200."""
    connection = Connection(address)
    requests: list[CheckedRequest] = []
    for text in texts:
        body = json.dumps({"q": text, "source": source, "target": target, "beam_size": 1}).encode()
        status, _, answer = await connection.exchange("POST", "/translate", body)
        if status != 200:
            raise RuntimeError(f"The server answered {status} to a reference.")
        requests.append(CheckedRequest(body, json.loads(answer)["translatedText"]))
    connection.close()
    return requests


def distinct(requests: Sequence[CheckedRequest]) -> Iterator[CheckedRequest]:
    """Yields the requests in an endless cycle, each with a different length penalty. Greedy search
    ignores the penalty, and the server cannot merge two requests into one computation."""
    for number in count():
        request = requests[number % len(requests)]
        penalty = f"{0.6 + 1e-7 * number:.7f}"
        yield CheckedRequest(
            request.body[:-1] + f', "length_penalty": {penalty}}}'.encode(), request.expected
        )


async def closed_loop(
    pool: CheckingClient,
    requests: Iterator[CheckedRequest],
    clients: int,
    seconds: float,
    longest_wait: float = math.inf,
) -> float:
    """Runs `clients` clients for `seconds`, each of which sends its next request after the answer
    to the last one. After a 429 it waits as long as told, at most `longest_wait` seconds. Returns
    answers per second."""
    began = time.monotonic()
    before = pool.stats.answers

    async def client() -> None:
        while (left := began + seconds - time.monotonic()) > 0:
            outcome = await pool.send(next(requests))
            if outcome.status == "429":
                await asyncio.sleep(min(outcome.retry_after, longest_wait, left))

    await asyncio.gather(*(client() for _ in range(clients)))
    return (pool.stats.answers - before) / (time.monotonic() - began)


def growth(before: Counter[str], after: Counter[str], prefix: str) -> float:
    """Returns the total growth of the samples whose name starts with `prefix`."""
    return sum(value - before[name] for name, value in after.items() if name.startswith(prefix))
