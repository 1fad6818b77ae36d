"""Measures the time of attention requests compared with the translation: one server, one client, requests in turn.

python -m benchmarks.load.inspection http://127.0.0.1:8000 --direction en-de --text "The cat sleeps." --rounds 200
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.common import report
from benchmarks.common.http_connection import Address, Connection

TEXT = (
    "Yesterday evening my sister told me that she wants to travel to the sea with her children this summer, "
    "because they have never seen a ship."
)
"""A sentence of about thirty pieces."""
_PICTURES = 20
PICTURES = {
    "one head": {"kind": "cross", "layer": "0", "head": "0"},
    "a layer": {"kind": "cross", "layer": "0"},
    "all heads": {"kind": "cross"},
    "lines": {"kind": "cross", "layer": "0", "view": "lines"},
    "the alignment": {"view": "alignment"},
    "the card": {"view": "card"},
}
"""Kinds of pictures and their parameters."""


class Client:
    """One keep-alive connection to a server."""

    def __init__(self, url: str, direction: str) -> None:
        self._connection = Connection(Address.parse(url))
        self._source, self._target = direction.split("-", 1)

    async def translate(self, text: str) -> bytes:
        """Requests a greedy translation."""
        request = {"q": text, "source": self._source, "target": self._target, "beam_size": 1}
        return await self._request("POST", "/translate", json.dumps(request).encode())

    async def attention(self, id: str, **parameters: str) -> bytes:
        """Requests the attention of a served translation."""
        return await self._request("GET", f"/attention?{urlencode({'id': id, **parameters})}", b"")

    async def close(self) -> None:
        """Closes the connection."""
        self._connection.close()
        await asyncio.sleep(0)  # the event loop closes the transport in its next iteration

    async def _request(self, method: str, path: str, body: bytes) -> bytes:
        status, _, answer = await self._connection.exchange(method, path, body)
        if status != 200:
            raise ValueError(f"{method} {path.split('?')[0]} returned status {status}: {answer[:200]!r}")
        return answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        rows, shape = asyncio.run(measure(options.url, options.direction, options.text, options.rounds))
    except (ValueError, OSError, EOFError) as error:
        print(error, file=sys.stderr)
        return 2
    print(shape)
    print(report.table(list(rows[0]), [list(row.values()) for row in rows]))
    if options.json:
        report.write(options.json, {"benchmark": "inspection", "shape": shape, "rows": rows})
    return 0


async def measure(url: str, direction: str, text: str, rounds: int) -> tuple[list[dict[str, Any]], str]:
    """Returns the median milliseconds of every kind of request, each sent `rounds` times in turn, and the shapes as
    text."""
    client = Client(url, direction)
    try:
        return await _measure(client, text, rounds)
    finally:
        await client.close()


async def _measure(client: Client, text: str, rounds: int) -> tuple[list[dict[str, Any]], str]:
    id = str(json.loads(await client.translate(text))["id"])
    found = json.loads(await client.attention(id, format="json"))
    requests: dict[str, Callable[[], Awaitable[bytes]]] = {
        "translation, greedy": lambda: client.translate(text),
        "attention, JSON": lambda: client.attention(id, format="json"),
        "attention, JSON of uint16": lambda: client.attention(id, format="json", numbers="uint16"),
    }
    for name, fields in PICTURES.items():
        for format in ("svg", "pdf", "png"):
            requests[f"picture, {format.upper()} of {name}"] = partial(client.attention, id, format=format, **fields)
    times: dict[str, list[float]] = {name: [] for name in requests}
    sizes: dict[str, int] = {}
    for turn in range(rounds + 1):
        for name, send in requests.items():
            if name.startswith("picture") and turn > _PICTURES:
                continue
            began = time.perf_counter()
            sizes[name] = len(await send())
            times[name].append(1000 * (time.perf_counter() - began))
    middle = {name: statistics.median(taken[1:]) for name, taken in times.items()}  # without the warm-up request
    base = middle["translation, greedy"]
    rows = [
        {"request": name, "ms": value, "translations": value / base, "kB": sizes[name] / 1000}
        for name, value in middle.items()
    ]
    pieces = len(found["source"]["pieces"]), len(found["target"]["pieces"])
    return rows, f"{pieces[0]} x {pieces[1]} tokens, maps {found['shapes']}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load.inspection", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("url", metavar="URL", help="the server")
    parser.add_argument("--direction", default="en-de", help="language pair (en-de)")
    parser.add_argument("--text", default=TEXT, help="one sentence")
    parser.add_argument("--rounds", type=int, default=200, help="requests of each kind (200)")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
