"""The endurance clients count every outcome correctly, and a correct server passes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.common.http_connection import Address
from benchmarks.endurance.__main__ import main
from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient, distinct
from benchmarks.endurance.overload import Overload, slope
from benchmarks.endurance.texts import documents, made_texts

ANSWER = b'{"translatedText": "x", "id": "%d"}'
REQUEST = CheckedRequest(json.dumps({"q": "x"}).encode(), "x")


@asynccontextmanager
async def server(*statuses: int) -> AsyncIterator[Address]:
    """Answers with these statuses in order and then repeats the last one; 0 closes the connection. Every answer has a
    different id."""
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


def sent(request: CheckedRequest, *statuses: int) -> AttemptStats:
    """Returns the counts after one attempt for each status."""
    stats = AttemptStats()

    async def body() -> None:
        async with server(*statuses) as address:
            client = CheckingClient(address, stats, 10.0)
            for _ in statuses:
                await client.send(request)
            await client.close()

    asyncio.run(body())
    return stats


def test_every_attempt_is_counted_by_its_outcome() -> None:
    stats = sent(REQUEST, 200, 429, 0, 500, 200)
    assert stats.statuses == {"200": 2, "429": 1, "closed": 1, "500": 1}
    assert stats.failures() == {"closed": 1, "500": 1}
    assert (stats.answers, stats.wrong, stats.repeated_ids, stats.stray) == (2, 0, 0, 0)


def test_wrong_answers_and_repeated_ids_are_counted() -> None:
    stats = sent(CheckedRequest(REQUEST.body, "y"), 200, 200)
    assert stats.wrong == 2
    stats.ids.pop()
    assert stats.repeated_ids == 1


def test_the_counts_of_the_server_are_compared() -> None:
    stats = AttemptStats(statuses=Counter({"200": 5, "429": 2, "closed": 1}))
    name = 'attentive_http_requests_total{{method="POST",route="/translate",status="{}"}}'
    before, after = Counter({name.format(200): 3}), Counter({name.format(200): 8, name.format(429): 2})
    assert stats.differences(before, after) == {}
    after[name.format(500)] = 1
    assert stats.differences(before, after) == {"500": 1}


def test_rejected_clients_retry_after_the_stated_time() -> None:
    async def body() -> Overload:
        async with server(429, 429, 200) as address:
            client = CheckingClient(address, AttemptStats(), 10.0)
            load = Overload(client, distinct([REQUEST]), retry_share=1.0)
            await load.run(20.0, 2.0)
            await client.close()
            return load

    retries = asyncio.run(body()).retries
    assert (retries.retry_after, retries.sent, retries.first_accepted_share()) == (
        Counter({1: 2}),
        Counter({1: 2}),
        1.0,
    )


def test_all_requests_are_different() -> None:
    texts = made_texts(50)
    assert len(set(texts)) == 50
    assert documents(["a", "b", "c"], 2) == ["a\nb", "b\nc", "c\na"]
    requests = list(islice(distinct([REQUEST, CheckedRequest(b'{"q": "z"}', "z")]), 1_000))
    assert len({request.body for request in requests}) == 1_000
    assert [request.expected for request in requests[:3]] == ["x", "z", "x"]
    assert json.loads(requests[0].body)["q"] == "x"


def test_slope() -> None:
    assert slope([0.0, 1.0, 2.0], [5.0, 7.0, 9.0]) == pytest.approx(2.0)
    assert slope([], []) == 0.0


@pytest.mark.parametrize("what", ["kills", "drain", "documents"])
def test_a_live_server_loses_nothing(what: str, tiny_weights: Path, tmp_path: Path) -> None:
    own = {
        "kills": ["--every", "1", "--requests", "100"],
        "drain": ["--sentences", "4"],
        "documents": ["--documents", "2", "--paragraphs", "50"],
    }[what]
    result = tmp_path / "result.json"
    command = [what, "--weights", str(tiny_weights), "--clients", "4", "--number", "20", "--seconds", "2", *own]
    assert main([*command, "--json", str(result), "--", "--dtype", "float32", "--threads", "1"]) == 0
    found = json.loads(result.read_text(encoding="utf-8"))
    assert found["answers"] > 0 and found["wrong"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("options", "ended"), [([], "kills"), (["--stop"], "stops")])
def test_two_servers_behind_a_proxy_lose_nothing_when_one_ends(
    tiny_weights: Path, tmp_path: Path, options: list[str], ended: str
) -> None:
    for program in ("redis-server", "haproxy"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian package: {program})")
    result = tmp_path / "result.json"
    command = ["replicas", "--weights", str(tiny_weights), "--clients", "4", "--number", "10", "--minutes", "0.1"]
    main([*command, *options, "--every", "0.1", "--json", str(result), "--", "--dtype", "float32", "--threads", "1"])
    found = json.loads(result.read_text(encoding="utf-8"))
    assert found["answers"] > 0 and found[ended]["server-1"] > 0
    assert (found["lost"], found["wrong"], found["repeated ids"]) == ({}, 0, 0)
    assert found["state after"]["attention"] == "right"
