"""The load generator counts every request, including failures, and never sends one text twice at the same time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.common.http_connection import Address
from benchmarks.load.__main__ import System, _measure, _parser
from benchmarks.load.closed_loop import _PAUSE_SECONDS, Answer, Job, Round, documents, jobs, run
from benchmarks.load.plots import draw_load


@asynccontextmanager
async def server(status: int = 200, log: list[str] | None = None) -> AsyncIterator[Address]:
    """Answers every POST with the text in capitals."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            text = json.loads(await reader.readexactly(length))["q"]
            if log is not None:
                log.append(text)
            await asyncio.sleep(0.002)
            body = json.dumps({"translatedText": text.upper()}).encode()
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
            await writer.drain()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except asyncio.IncompleteReadError:
            pass  # the client hung up
        finally:
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listening:
        yield Address("127.0.0.1", listening.sockets[0].getsockname()[1], "")


def test_every_request_is_answered_and_counted() -> None:
    log: list[str] = []

    async def measure() -> Round:
        async with server(log=log) as address:
            return await run(address, jobs(["a", "b", "c"], 1, "en", "de", None), 3, 0.1, 5.0)

    found = asyncio.run(measure())
    assert len(found.answers) == len(log)
    assert found.errors == 0
    assert all(answer.translation == "ABC"[answer.job.text] for answer in found.answers)
    assert found.sentences_per_second == pytest.approx(len(log) / found.seconds)


def test_failures_are_counted_but_not_as_throughput() -> None:
    async def measure() -> Round:
        async with server(status=500) as address:
            return await run(address, jobs(["a"], 1, "en", "de", 4), 2, 0.1, 5.0)

    found = asyncio.run(measure())
    assert found.errors == len(found.answers) > 0
    assert found.sentences_per_second == 0
    assert {answer.error for answer in found.answers} == {"500"}


def test_an_unreachable_server_is_counted_as_errors() -> None:
    found = asyncio.run(run(Address("127.0.0.1", 1, ""), jobs(["a"], 1, "en", "de", None), 1, 0.05, 1.0))
    assert found.errors == len(found.answers) > 0
    pauses = 0.9 * _PAUSE_SECONDS * len(found.answers)  # asyncio may end a sleep early
    assert sum(answer.seconds for answer in found.answers) + pauses < found.seconds  # a pause is no latency


def test_latency_is_a_quantile_by_rank() -> None:
    job = Job(b"", 1, 0)
    found = Round(tuple(Answer(job, float(i), "x", None) for i in range(1, 101)), 1.0)
    assert (found.latency(0.5), found.latency(0.99)) == (51.0, 100.0)


def test_documents_contain_every_sentence_once() -> None:
    texts = documents([f"S{i}." for i in range(12)], 6, paragraph=3)
    assert texts == ["S0. S1. S2.\nS3. S4. S5.", "S6. S7. S8.\nS9. S10. S11."]


@pytest.mark.slow
def test_two_servers_are_measured_in_turn_and_plotted(tmp_path: Path) -> None:
    options = _parser().parse_args(
        ["http://a", "http://b", "--data", ".", "--clients", "1", "2", "--seconds", "0.05", "--rounds", "2"]
    )

    async def measure() -> list[dict[str, object]]:
        async with server() as one, server() as two:
            texts = ["green house", "small garden"]
            systems = [System(n, a, jobs(texts, 1, "en", "de", None)) for n, a in (("one", one), ("two", two))]
            return await _measure(systems, options, (["GREEN HOUSE", "SMALL GARDEN"], "de"))

    rows = asyncio.run(measure())
    assert [(row["system"], row["clients"]) for row in rows] == [("one", 1), ("two", 1), ("one", 2), ("two", 2)]
    assert all(row["errors"] == 0 and len(row["sentences/s of each round"]) == 2 for row in rows)  # type: ignore[arg-type]
    draw_load(rows, 1, tmp_path / "load.svg")
    assert (tmp_path / "load.svg").read_text(encoding="utf-8").startswith("<?xml")
