"""Starts `attentive serve` as a separate process and reads its state over HTTP, its log and
/proc."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common.http_connection import Address, Connection, free_port

_STOP_SECONDS = 180.0
_SAMPLE = re.compile(r"(?P<name>[a-z_]+)(\{(?P<labels>[^}]*)\})? (?P<value>\S+)")


@dataclass(frozen=True, slots=True)
class Served:
    """A running server. `log` collects its standard error."""

    process: subprocess.Popen[bytes]
    address: Address
    log: Path

    async def ready(self) -> dict[str, Any]:
        """Returns the body of GET /ready. Raises OSError, EOFError or ValueError if there is no
        answer."""
        return dict(json.loads((await self._get("/ready"))[1]))

    async def until_ready(self) -> None:
        """Waits until the server is ready. Raises RuntimeError if the server exits first."""
        while self.process.poll() is None:
            # at first nothing listens
            with contextlib.suppress(OSError, EOFError):
                if (await self.ready())["status"] == "ready":
                    return
            await asyncio.sleep(0.1)
        end = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise RuntimeError(f"The server ended before it was ready:\n{end}")

    async def metrics(self) -> Counter[str]:
        """Returns the samples of GET /metrics, keyed by `name` or `name{label="value"}`."""
        _, body = await self._get("/metrics")
        samples: Counter[str] = Counter()
        for line in body.decode().splitlines():
            if match := _SAMPLE.fullmatch(line):
                labels = f"{{{match['labels']}}}" if match["labels"] else ""
                samples[match["name"] + labels] = float(match["value"])  # type: ignore[assignment]
        return samples

    async def worker(self) -> int | None:
        """Returns the process id of the first worker, or None while it is down."""
        workers = (await self.ready())["workers"]
        return workers[0]["pid"] if workers and workers[0]["up"] else None

    async def _get(self, path: str) -> tuple[int, bytes]:
        connection = Connection(self.address)
        try:
            status, _, body = await connection.exchange("GET", path)
        finally:
            connection.close()
        return status, body


@asynccontextmanager
async def serving(arguments: Sequence[str], folder: Path) -> AsyncIterator[Served]:
    """Starts a server with these flags on a free port and waits until it is ready. Its log and data
    go to `folder`; it is stopped with SIGTERM.

    Raises RuntimeError if it does not become ready.
    """
    log, port = folder / "server.log", free_port()
    command = [sys.executable, "-m", "server", "serve", "--port", str(port)]
    command += ["--data", str(folder / "data"), *arguments]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ATTENTIVE_")
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stderr=stream, env=environment)  # noqa: ASYNC220  starting a process takes a few milliseconds
    served = Served(process, Address("127.0.0.1", port, ""), log)
    try:
        await served.until_ready()
        yield served
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def resident_megabytes(pid: int | None) -> float | None:
    """Returns the resident memory of a process, or None if it has ended."""
    try:
        return float(psutil.Process(pid).memory_info().rss) / 2**20 if pid else None
    except psutil.NoSuchProcess:
        return None
