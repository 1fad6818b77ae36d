"""What every client does: ask, and compare the answer with the one that the same text got when nothing else ran."""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from benchmarks.common.http_connection import Address, Connection

_IDLE_SECONDS = 30.0
_ROUTE = 'attentive_http_requests_total{{method="POST",route="/translate",status="{}"}}'


@dataclass(frozen=True, slots=True)
class Question:
    """One request: its body, and the translation that it must get."""

    body: bytes
    expected: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: its status as text, or what went wrong with the connection. Seconds; `retry_after` is that
    of a 429."""

    status: str
    seconds: float
    retry_after: int = 0


@dataclass(slots=True)
class Ledger:
    """Everything that the clients saw."""

    statuses: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    """Answers that differ from the reference."""
    stray: int = 0
    """Connections on which more came than was asked for."""
    seconds: array[float] = field(default_factory=lambda: array("d"))
    """How long each 200 took, in the order of their arrival."""
    ids: set[str] = field(default_factory=set)

    @property
    def answers(self) -> int:
        return self.statuses["200"]

    @property
    def repeated_ids(self) -> int:
        """Answers that bore the id of another one."""
        return self.answers - len(self.ids)

    def failures(self) -> dict[str, int]:
        """Attempts that ended neither in a translation nor in a 429, by kind."""
        return {kind: number for kind, number in self.statuses.items() if kind not in ("200", "429")}

    def latency(self, share: float, since: int = 0) -> float:
        """Quantile of the seconds of answers, nearest rank, leaving out the first `since`."""
        times = sorted(self.seconds[since:])
        return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0

    def differences(self, before: Counter[str], after: Counter[str]) -> dict[str, float]:
        """How far the server's counts of POST /translate are from the clients', by status; empty where they agree."""
        kinds = {kind for kind in self.statuses if kind.isdigit()} | {"200", "429", "499", "500", "503", "504"}
        found = {kind: growth(before, after, _ROUTE.format(kind)) - self.statuses[kind] for kind in sorted(kinds)}
        return {kind: difference for kind, difference in found.items() if difference}


class Asker:
    """Asks over any of its connections; belongs to one event loop. `patience` in seconds: later is a hang."""

    def __init__(self, address: Address, ledger: Ledger, patience: float) -> None:
        self.ledger = ledger
        self._address, self._patience = address, patience
        self._idle: list[tuple[float, Connection]] = []
        self.waiting: dict[int, float] = {}
        """When each question under way was sent, by a number of its own."""
        self._numbers = count()

    async def ask(self, question: Question) -> Outcome:
        """One attempt, entered in the ledger."""
        connection = self._connection()
        began, number = time.monotonic(), next(self._numbers)
        self.waiting[number] = began
        retry_after = 0
        try:
            async with asyncio.timeout(self._patience):
                code, headers, body = await connection.exchange("POST", "/translate", question.body)
            status, retry_after = str(code), int(headers.get(b"retry-after", b"0"))
            if code == 200:
                self._check(question, json.loads(body))
            self._idle.append((time.monotonic(), connection))
        except TimeoutError:
            status = "hang"
        except asyncio.IncompleteReadError as error:
            status = "broken off" if error.partial or error.expected else "closed"
        except OSError as error:
            status = type(error).__name__
        seconds = time.monotonic() - began
        del self.waiting[number]
        self.ledger.statuses[status] += 1
        if status == "200":
            self.ledger.seconds.append(seconds)
        return Outcome(status, seconds, retry_after)

    async def close(self) -> None:
        """Hang up, after a look whether anything came that nobody asked for."""
        for stray in await asyncio.gather(*(connection.stray(0.2) for _, connection in self._idle)):
            self.ledger.stray += bool(stray)
        for _, connection in self._idle:
            connection.close()
        self._idle = []

    def _connection(self) -> Connection:
        """One that was used lately, as servers hang up on idle ones; or a new one."""
        while self._idle:
            used, connection = self._idle.pop()
            if time.monotonic() - used < _IDLE_SECONDS:
                return connection
            connection.close()
        return Connection(self._address)

    def _check(self, question: Question, answer: dict[str, str]) -> None:
        self.ledger.wrong += answer["translatedText"] != question.expected
        self.ledger.ids.add(answer["id"])


async def references(address: Address, texts: Sequence[str], source: str, target: str) -> list[Question]:
    """Each text with its translation, asked for one by one with nothing beside it. Raises RuntimeError for any status
    but 200."""
    connection = Connection(address)
    questions: list[Question] = []
    for text in texts:
        body = json.dumps({"q": text, "source": source, "target": target}).encode()
        status, _, answer = await connection.exchange("POST", "/translate", body)
        if status != 200:
            raise RuntimeError(f"The server answered {status} to a reference.")
        questions.append(Question(body, json.loads(answer)["translatedText"]))
    connection.close()
    return questions


def distinct(questions: Sequence[Question]) -> Iterator[Question]:
    """The questions again and again, no two of them alike, so that the server cannot answer two by one computation:
    they differ in a length penalty that says nothing to a greedy search."""
    for number in count():
        question = questions[number % len(questions)]
        penalty = f"{0.6 + 1e-7 * number:.7f}"
        yield Question(question.body[:-1] + f', "length_penalty": {penalty}}}'.encode(), question.expected)


async def closed_loop(asker: Asker, questions: Iterator[Question], clients: int, seconds: float) -> float:
    """`clients` clients that each ask the next question when they have the answer to the last; returns answers per
    second. Raises RuntimeError where an answer is not 200."""
    began = time.monotonic()
    before = asker.ledger.answers

    async def client() -> None:
        while time.monotonic() < began + seconds:
            outcome = await asker.ask(next(questions))
            if outcome.status != "200":
                raise RuntimeError(f"The server answered {outcome.status} while its capacity was measured.")

    await asyncio.gather(*(client() for _ in range(clients)))
    return (asker.ledger.answers - before) / (time.monotonic() - began)


def growth(before: Counter[str], after: Counter[str], prefix: str) -> float:
    """By how much the samples grew whose name begins so."""
    return sum(value - before[name] for name, value in after.items() if name.startswith(prefix))
