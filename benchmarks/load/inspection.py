"""What a look inside costs beside the translation it is about, on one server, one caller, requests in turn.

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
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.common import report
from benchmarks.common.http_connection import Address, Connection

TEXT = (
    "Yesterday evening my sister told me that she wants to travel to the sea with her children this summer, "
    "because they have never seen a ship."
)
"""About thirty pieces in any vocabulary of a bilingual model."""
_PICTURES = 10


class Caller:
    """One kept connection to one server."""

    def __init__(self, url: str, direction: str) -> None:
        self._connection = Connection(Address.parse(url))
        self._source, self._target = direction.split("-", 1)

    async def translate(self, text: str) -> bytes:
        """Greedy, as everybody else asks for it."""
        asked = {"q": text, "source": self._source, "target": self._target, "beam_size": 1}
        return await self._ask("POST", "/translate", json.dumps(asked).encode())

    async def look(self, id: str, **parameters: str) -> bytes:
        """The attention of a translation that was served."""
        return await self._ask("GET", f"/attention?{urlencode({'id': id, **parameters})}", b"")

    async def hang_up(self) -> None:
        """Close the connection."""
        self._connection.close()
        await asyncio.sleep(0)  # the loop closes it in its next turn

    async def _ask(self, method: str, path: str, body: bytes) -> bytes:
        status, _, answer = await self._connection.exchange(method, path, body)
        if status != 200:
            raise ValueError(f"{method} {path.split('?')[0]} was answered {status}: {answer[:200]!r}")
        return answer


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = _parser().parse_args(arguments)
    try:
        rows, shape = asyncio.run(measure(options.url, options.direction, options.text, options.rounds))
    except (ValueError, OSError, EOFError) as error:
        print(error, file=sys.stderr)
        return 2
    print(shape)
    print(report.table(list(rows[0]), [list(row.values()) for row in rows]))
    if options.json:
        report.write(options.json, {"benchmark": "looking", "shape": shape, "rows": rows})
    return 0


async def measure(url: str, direction: str, text: str, rounds: int) -> tuple[list[dict[str, Any]], str]:
    """Median milliseconds of every kind of request, each `rounds` times in turn, and what was looked at, in words."""
    caller = Caller(url, direction)
    try:
        return await _measure(caller, text, rounds)
    finally:
        await caller.hang_up()


async def _measure(caller: Caller, text: str, rounds: int) -> tuple[list[dict[str, Any]], str]:
    id = str(json.loads(await caller.translate(text))["id"])
    found = json.loads(await caller.look(id, format="json"))
    requests: dict[str, Callable[[], Awaitable[bytes]]] = {
        "translation, greedy": lambda: caller.translate(text),
        "attention, JSON": lambda: caller.look(id, format="json"),
        "attention, JSON of uint16": lambda: caller.look(id, format="json", numbers="uint16"),
        "attention, PNG of a layer": lambda: caller.look(id, format="png", kind="cross", layer="0"),
        "attention, PNG of one head": lambda: caller.look(id, format="png", kind="cross", layer="0", head="0"),
    }
    times: dict[str, list[float]] = {name: [] for name in requests}
    sizes: dict[str, int] = {}
    for turn in range(rounds + 1):
        for name, ask in requests.items():
            if "PNG" in name and turn > _PICTURES:
                continue
            begun = time.perf_counter()
            sizes[name] = len(await ask())
            times[name].append(1000 * (time.perf_counter() - begun))
    middle = {name: statistics.median(taken[1:]) for name, taken in times.items()}  # the first one warms up
    base = middle["translation, greedy"]
    rows = [
        {"request": name, "ms": value, "translations": value / base, "kB": sizes[name] / 1000}
        for name, value in middle.items()
    ]
    pieces = len(found["source"]["pieces"]), len(found["target"]["pieces"])
    return rows, f"{pieces[0]} x {pieces[1]} tokens, maps {found['shapes']}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load.inspection", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("url", metavar="URL", help="the server")
    parser.add_argument("--direction", default="en-de", help="language pair (en-de)")
    parser.add_argument("--text", default=TEXT, help="one sentence")
    parser.add_argument("--rounds", type=int, default=200, help="requests of each kind (200)")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
