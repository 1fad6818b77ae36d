"""Documents that unpack to very many paragraphs, sent all at once beside single sentences: memory of all processes, and
the time of the sentences."""

from __future__ import annotations

import asyncio
import io
import json
import random
import time
import zipfile
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any

from benchmarks.common.http_connection import Connection
from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient, distinct
from benchmarks.endurance.server import Served, tree_megabytes

_BOUNDARY = "----endurance"
_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PADDING_BYTES = 150_000
"""Random bytes in the file, because the server refuses a file that is packed too well."""
_PAUSE_SECONDS = 0.05
"""Pause of a client between two sentences."""
_SAMPLE_SECONDS = 0.1
_POLL_SECONDS = 1.0


async def documents(
    served: Served, requests: list[CheckedRequest], clients: int, seconds: float, count: int, paragraphs: int
) -> dict[str, Any]:
    """Sends sentences for `seconds`, then `count` documents at once beside the sentences until all documents are
    finished, at most ten times `seconds`."""
    supply = distinct(requests)
    quiet, loaded = AttemptStats(), AttemptStats()
    before = tree_megabytes(served.process.pid)
    await _sentences(served, quiet, supply, clients, asyncio.create_task(asyncio.sleep(seconds)))
    data = document(paragraphs)
    peak: list[float] = [0.0]
    watch = asyncio.create_task(_watch_memory(served, peak))
    began = time.monotonic()
    work = asyncio.gather(*(_bounded(_translate(served, data), 10 * seconds) for _ in range(count)))
    await _sentences(served, loaded, supply, clients, work)
    elapsed = time.monotonic() - began
    await asyncio.sleep(_POLL_SECONDS)
    watch.cancel()
    outcomes = Counter(work.result())
    return {
        "documents": count, "bytes of each": len(data), "paragraphs of each": paragraphs,
        "outcomes of the documents": dict(outcomes), "seconds": round(elapsed, 1),
        "memory before, MB": round(before), "largest memory of all processes, MB": round(peak[0]),
        "memory after, MB": round(tree_megabytes(served.process.pid)),
        "answers alone": quiet.answers, "answers": loaded.answers,
        "p50 ms alone": 1000 * quiet.latency(0.5), "p99 ms alone": 1000 * quiet.latency(0.99),
        "p50 ms": 1000 * loaded.latency(0.5), "p99 ms": 1000 * loaded.latency(0.99),
        "slowest ms": 1000 * loaded.latency(1.0),
        "failures": quiet.failures() + loaded.failures(), "rejected": loaded.statuses["429"],
        "wrong": quiet.wrong + loaded.wrong, "repeated ids": quiet.repeated_ids + loaded.repeated_ids,
    }  # fmt: skip


def document(paragraphs: int) -> bytes:
    """Returns a Word file of paragraphs with one letter each."""
    body = "<w:p><w:r><w:t>a</w:t></w:r></w:p>" * paragraphs
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml", f'<w:document xmlns:w="{_NAMESPACE}"><w:body>{body}</w:body></w:document>'
        )
        archive.writestr("word/media/image1.png", random.Random(1).randbytes(_PADDING_BYTES))
    return target.getvalue()


async def _bounded(work: Coroutine[Any, Any, str], seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return "unfinished"


async def _translate(served: Served, data: bytes) -> str:
    """Uploads a document and waits for its end. Returns the state of the document or the status of a rejection."""
    fields = "".join(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("source_lang", "EN"), ("target_lang", "DE"))
    )
    head = f'{fields}--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.docx"\r\n\r\n'
    body = head.encode() + data + f"\r\n--{_BOUNDARY}--\r\n".encode()
    connection = Connection(served.address)
    try:
        kind = f"multipart/form-data; boundary={_BOUNDARY}"
        status, _, answer = await connection.exchange("POST", "/v2/document", body, kind)
        if status != 200:
            return str(status)
        sent = json.loads(answer)
        key = json.dumps({"document_key": sent["document_key"]}).encode()
        while True:
            _, answer = await connection.post(f"/v2/document/{sent['document_id']}", key)
            state = str(json.loads(answer).get("status"))
            if state != "translating":
                return state
            await asyncio.sleep(_POLL_SECONDS)
    except (OSError, EOFError) as error:
        return type(error).__name__
    finally:
        connection.close()


async def _sentences(
    served: Served, stats: AttemptStats, supply: Iterator[CheckedRequest], clients: int, until: asyncio.Future[Any]
) -> None:
    """Runs `clients` clients that send one sentence at a time until the future is done."""
    pool = CheckingClient(served.address, stats, 60.0)

    async def client() -> None:
        while not until.done():
            await pool.send(next(supply))
            await asyncio.sleep(_PAUSE_SECONDS)

    await asyncio.gather(*(client() for _ in range(clients)), until)
    await pool.close()


async def _watch_memory(served: Served, peak: list[float]) -> None:
    while True:
        peak[0] = max(peak[0], tree_megabytes(served.process.pid))
        await asyncio.sleep(_SAMPLE_SECONDS)
