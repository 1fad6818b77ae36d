"""Endurance: what the clients count is what happened, and a server that keeps its word passes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.common.http_connection import Address
from benchmarks.endurance.__main__ import main
from benchmarks.endurance.client import Asker, Ledger, Question, distinct
from benchmarks.endurance.overload import Overload, slope
from benchmarks.endurance.texts import documents, made_texts

ANSWER = b'{"translatedText": "x", "id": "%d"}'
QUESTION = Question(json.dumps({"q": "x"}).encode(), "x")


@asynccontextmanager
async def server(*statuses: int) -> AsyncIterator[Address]:
    """Answers with these statuses in turn, the last one for ever; 0 hangs up. Every answer has another id."""
    turn = iter(statuses)
    count = iter(range(10**6))

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                status = next(turn, statuses[-1])
                if not status:
                    break
                body = ANSWER % next(count)
                head = b"HTTP/1.1 %d X\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
                writer.write(head + body)
        except asyncio.IncompleteReadError:
            pass  # the client hung up
        finally:
            writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as listening:
        yield Address("127.0.0.1", listening.sockets[0].getsockname()[1], "")


def asked(question: Question, *statuses: int) -> Ledger:
    """What the ledger holds after one attempt for each status."""
    ledger = Ledger()

    async def body() -> None:
        async with server(*statuses) as address:
            asker = Asker(address, ledger, 10.0)
            for _ in statuses:
                await asker.ask(question)
            await asker.close()

    asyncio.run(body())
    return ledger


def test_every_attempt_is_counted_as_what_it_was() -> None:
    ledger = asked(QUESTION, 200, 429, 0, 500, 200)
    assert ledger.statuses == {"200": 2, "429": 1, "closed": 1, "500": 1}
    assert ledger.failures() == {"closed": 1, "500": 1}
    assert (ledger.answers, ledger.wrong, ledger.repeated_ids, ledger.stray) == (2, 0, 0, 0)


def test_a_wrong_answer_and_a_repeated_id_are_seen() -> None:
    ledger = asked(Question(QUESTION.body, "y"), 200, 200)
    assert ledger.wrong == 2
    ledger.ids.pop()
    assert ledger.repeated_ids == 1


def test_the_server_s_counts_are_compared() -> None:
    ledger = Ledger(statuses=Counter({"200": 5, "429": 2, "closed": 1}))
    name = 'attentive_http_requests_total{{method="POST",route="/translate",status="{}"}}'
    before, after = Counter({name.format(200): 3}), Counter({name.format(200): 8, name.format(429): 2})
    assert ledger.differences(before, after) == {}
    after[name.format(500)] = 1
    assert ledger.differences(before, after) == {"500": 1}


def test_clients_who_are_refused_come_back_when_they_are_told_to() -> None:
    async def body() -> Overload:
        async with server(429, 429, 200) as address:
            asker = Asker(address, Ledger(), 10.0)
            load = Overload(asker, distinct([QUESTION]), patient=1.0)
            await load.run(20.0, 2.0)
            await asker.close()
            return load

    returns = asyncio.run(body()).returns
    assert (returns.told, returns.came, returns.share()) == (Counter({1: 2}), Counter({1: 2}), 1.0)


def test_no_two_questions_are_alike() -> None:
    texts = made_texts(50)
    assert len(set(texts)) == 50
    assert documents(["a", "b", "c"], 2) == ["a\nb", "b\nc", "c\na"]
    asks = list(islice(distinct([QUESTION, Question(b'{"q": "z"}', "z")]), 1_000))
    assert len({question.body for question in asks}) == 1_000
    assert [question.expected for question in asks[:3]] == ["x", "z", "x"]
    assert json.loads(asks[0].body)["q"] == "x"


def test_slope() -> None:
    assert slope([0.0, 1.0, 2.0], [5.0, 7.0, 9.0]) == pytest.approx(2.0)
    assert slope([], []) == 0.0


@pytest.mark.parametrize("what", ["kills", "drain"])
def test_a_live_server_loses_nothing(what: str, tiny_weights: Path, tmp_path: Path) -> None:
    own = {"kills": ["--every", "1", "--requests", "100"], "drain": ["--sentences", "4"]}[what]
    result = tmp_path / "result.json"
    command = [what, "--weights", str(tiny_weights), "--clients", "4", "--number", "20", "--seconds", "2", *own]
    assert main([*command, "--json", str(result), "--", "--dtype", "float32", "--threads", "1"]) == 0
    found = json.loads(result.read_text(encoding="utf-8"))
    assert found["answers"] > 0 and found["wrong"] == 0
