"""The history on disk: bytes of its files under long texts, and a database that is damaged or deleted meanwhile."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.common.http_connection import Connection
from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient
from benchmarks.endurance.server import Served

_CHARACTERS = 90_000
_WRITE_SECONDS = 3.0
"""Time in which the history is written again after a failure."""
_SHORT = 20
"""Single sentences after each event."""


async def disk(served: Served, requests: list[CheckedRequest], count: int) -> dict[str, Any]:
    """Sends `count` long texts, each followed by a sentence; then damages the database, and then deletes its folder.
    The bound is `--history-bytes` of the server."""
    stats = AttemptStats()
    client = CheckingClient(served.address, stats, 110.0)
    folder = served.log.parent / "data"
    connection = Connection(served.address)
    largest = 0
    longs: Counter[str] = Counter()
    for number in range(count):
        sentence = json.loads(requests[number % len(requests)].body)
        text = sentence["q"] + "\n"
        sentence["q"] = text * (_CHARACTERS // len(text))
        status, _ = await connection.post("/translate", json.dumps(sentence).encode())
        longs[str(status)] += 1
        await client.send(requests[number % len(requests)])
        largest = max(largest, _bytes(folder))
    before = await served.metrics()
    _damage(folder)
    await _sentences(client, requests)
    shutil.rmtree(folder)
    await _sentences(client, requests)
    found = await _kept(connection, requests[0])
    await asyncio.sleep(_WRITE_SECONDS)
    after = await served.metrics()
    connection.close()
    await client.close()
    errors = "attentive_history_errors_total"
    return {
        "long texts": count, "characters of each": _CHARACTERS, "statuses of the long texts": dict(longs),
        "largest bytes on disk": largest, "bytes on disk at the end": _bytes(folder),
        "history errors counted": after[errors] - before[errors],
        "status of /attention after both": found,
        "sentences": stats.answers, "failures": stats.failures(), "wrong": stats.wrong,
        "repeated ids": stats.repeated_ids,
    }  # fmt: skip


async def _sentences(client: CheckingClient, requests: list[CheckedRequest]) -> None:
    for number in range(_SHORT):
        await client.send(requests[number % len(requests)])


async def _kept(connection: Connection, request: CheckedRequest) -> int:
    """Translates a sentence and returns the status of its attention by id."""
    _, answer = await connection.post("/translate", request.body)
    status, _, _ = await connection.exchange("GET", f"/attention?id={json.loads(answer)['id']}")
    return status


def _damage(folder: Path) -> None:
    """Overwrites all but the first page of the database, and its write-ahead log."""
    for file in folder.glob("history.sqlite3*"):
        if not file.name.endswith("-shm"):
            data = file.read_bytes()
            file.write_bytes(data[:4096] + b"\xff" * max(0, len(data) - 4096))


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("history*") if file.is_file())
