"""Two servers with shared state behind HAProxy: as processes that are started here, or in the containers of compose."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from benchmarks.common.http_connection import Address, Connection, free_port
from benchmarks.load.processor_time import descendants, seconds_of

ROOT = Path(__file__).parents[2]
PARTS = ("server-1", "server-2", "redis")
"""The parts that are killed in turn."""
_START_SECONDS = 600.0
_STOP_SECONDS = "60"
"""Time until Docker sends SIGKILL to a container that was told to stop."""
_BOTH_UP = re.compile(r'^haproxy_backend_agg_server_status{proxy="servers",state="UP"} 2$', re.MULTILINE)


class Fleet(ABC):
    """`front` is the address of HAProxy, `front_metrics` that of its metrics. `servers` are the addresses of the servers
    themselves."""

    front: Address
    front_metrics: Address
    servers: list[Address]

    @abstractmethod
    def kill(self, part: str) -> None:
        """Kills the processes of a part with SIGKILL and starts it again."""

    @abstractmethod
    def stop(self, part: str) -> None:
        """Ends a part with SIGTERM, waits until it has ended, and starts it again."""

    @abstractmethod
    def attentive(self, *words: str) -> str:
        """Runs a command of `attentive` with the settings of the servers. Returns its output."""

    @abstractmethod
    def processes(self, part: str) -> list[int]:
        """Returns the ids of the first processes of a part ("front" too)."""

    async def recovered(self) -> None:
        """Waits until both servers are ready and reach the shared state, and the front sends requests to both. Raises
        RuntimeError."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                for address in (*self.servers, self.front):
                    await _until_answer(address, "/ready", b"")
                for address in self.servers:
                    await _until_answer(address, "/metrics", b"\nattentive_state_up 1.0")
                await self._until_front_sees_both()
        except TimeoutError:
            raise RuntimeError(f"The servers were not ready within {_START_SECONDS:.0f} seconds.") from None

    async def _until_front_sees_both(self) -> None:
        url = f"http://{self.front_metrics.host}:{self.front_metrics.port}/metrics"
        async with httpx.AsyncClient(timeout=_START_SECONDS) as client:
            while True:
                found = await client.get(url, params={"scope": "backend"})
                if _BOTH_UP.search(found.text):
                    return
                await asyncio.sleep(0.1)

    def processor_seconds(self, part: str) -> float:
        """Returns the processor time of a part until now."""
        return sum(seconds_of(process) for pid in self.processes(part) for process in (pid, *descendants(pid)))


class ProcessFleet(Fleet):
    """Processes on free ports. `folder` receives logs and data, `flags` are for the servers."""

    def __init__(self, folder: Path, flags: Sequence[str]) -> None:
        self._folder, self._flags = folder, flags
        self._ports = {part: free_port() for part in (*PARTS, "front", "metrics")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.front = Address("127.0.0.1", self._ports["front"], "", tls=True)
        self.front_metrics = Address("127.0.0.1", self._ports["metrics"], "")
        self.servers = [Address("127.0.0.1", self._ports[part], "") for part in PARTS[:2]]
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("ATTENTIVE_")}
        script = ["sh", str(ROOT / "deploy/haproxy/make-certificate.sh"), str(folder)]
        subprocess.run(script, capture_output=True, check=True)
        self._state = ["--state", f"redis://127.0.0.1:{self._ports['redis']}"]
        for part in (*reversed(PARTS), "front"):
            self._start(part)

    def kill(self, part: str) -> None:
        self._end(part, signal.SIGKILL)

    def stop(self, part: str) -> None:
        self._end(part, signal.SIGTERM)

    def _end(self, part: str, number: signal.Signals) -> None:
        self._running[part].send_signal(number)
        self._running[part].wait()
        self._start(part)

    def attentive(self, *words: str) -> str:
        command = [sys.executable, "-m", "server", *words, *self._state]
        return subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=True
        ).stdout

    def processes(self, part: str) -> list[int]:
        return [self._running[part].pid]

    def close(self) -> None:
        """Stops all processes."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self, part: str) -> None:
        port, data = str(self._ports[part]), self._folder / part
        data.mkdir(exist_ok=True)
        if part == "front":
            command = ["haproxy", "-W", "-db", "-f", str(ROOT / "deploy/haproxy/haproxy.cfg")]
        elif part == "redis":
            command = ["redis-server", "--port", port, "--dir", str(data), "--appendonly", "yes", "--save", ""]
        else:
            command = [sys.executable, "-m", "server", "serve", "--port", port, "--data", str(data), *self._state]
            command += ["--trusted-proxies", "*", "--drain-seconds", "2", *self._flags]
        addresses = {f"SERVER_{number}": f"127.0.0.1:{self._ports[f'server-{number}']}" for number in (1, 2)}
        addresses |= {"CERTIFICATE": str(self._folder / "front.pem")}
        addresses |= {
            "FRONT": f"127.0.0.1:{self._ports['front']}",
            "FRONT_METRICS": f"127.0.0.1:{self._ports['metrics']}",
        }
        with (self._folder / f"{part}.log").open("ab") as log:
            self._running[part] = subprocess.Popen(
                command, cwd=ROOT, env=self._environment | addresses, stdout=log, stderr=log
            )


class ComposeFleet(Fleet):
    """The containers of `docker compose --profile scaled up`, on the machine that runs them, as root."""

    def __init__(self, compose: Sequence[str], front: str) -> None:
        self._compose = [*compose, "--profile", "scaled"]
        self._containers = {part: self._run("ps", "-q", part).strip() for part in (*PARTS, "front")}
        self.front = Address.parse(front)
        self.front_metrics = Address(self._address("front"), 8405, "")
        self.servers = [Address(self._address(part), 8000, "") for part in PARTS[:2]]

    def kill(self, part: str) -> None:
        first = int(self._inspect(part, "{{.State.Pid}}"))
        for process in [first] if part == "redis" else _children(first):  # in a server the first process is tini
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)  # the restart policy starts the container again

    def stop(self, part: str) -> None:
        self._run("restart", "-t", _STOP_SECONDS, part)

    def attentive(self, *words: str) -> str:
        return self._run("exec", "-T", "server-1", "attentive", *words)

    def processes(self, part: str) -> list[int]:
        return [int(self._inspect(part, "{{.State.Pid}}"))]

    async def recovered(self) -> None:
        await asyncio.sleep(0.5)  # a container that ended may have another address when it runs again
        async with asyncio.timeout(_START_SECONDS):
            while True:
                addresses = [self._address(part) for part in PARTS[:2]]
                if all(addresses):
                    break
                await asyncio.sleep(0.2)
        self.servers = [Address(address, 8000, "") for address in addresses]
        await super().recovered()

    def _address(self, part: str) -> str:
        """Returns an address of a part, or nothing while it does not run."""
        return next(iter(self._inspect(part, _ADDRESSES).split()), "")

    def _inspect(self, part: str, template: str) -> str:
        command = ["docker", "inspect", "-f", template, self._containers[part]]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def _run(self, *words: str) -> str:
        command = [*self._compose, *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


_ADDRESSES = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"


@asynccontextmanager
async def fleet(folder: Path, flags: Sequence[str], compose: str, front: str) -> AsyncIterator[Fleet]:
    """Starts the processes, or finds the containers where `compose` is a command. Raises RuntimeError where a program is
    missing or the servers do not become ready."""
    if compose:
        found: Fleet = ComposeFleet(compose.split(), front)
        await found.recovered()
        yield found
        return
    if missing := [program for program in ("haproxy", "redis-server", "openssl") if shutil.which(program) is None]:
        raise RuntimeError(f"Not installed: {', '.join(missing)}.")
    started = ProcessFleet(folder, flags)
    try:
        await started.recovered()
        yield started
    finally:
        started.close()


async def _until_answer(address: Address, path: str, text: bytes) -> None:
    """Waits until GET `path` is 200 and its body contains `text`, and the CPU backend is compiled, because torch rounds
    differently."""
    while True:
        connection = Connection(address)
        try:
            async with asyncio.timeout(5):
                status, _, body = await connection.exchange("GET", path)
            if status == 200 and text in body and b"is being compiled" not in body:
                return
        except (OSError, EOFError, ValueError):
            pass  # it starts
        finally:
            connection.close()
        await asyncio.sleep(0.1)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []
