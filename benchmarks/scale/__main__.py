"""Processor time of the API process for a request, before an echo in place of a worker: single
sentences, arrays, streams and refusals.

    python -m benchmarks.scale --model weights/general-en-de-fr-es --data DATA --sets tatoeba-dev
    --seconds 4 --rounds 3

The load comes from processes of its own. Times are processor time of the API process, which writes
its log to a file. `--base CHECKOUT` measures another checkout of this repository in turns,
`--processes 2 4` this one with one and so many API processes, without samples: the time is then
that of all of them with the supervisor and the leader. Requests are refused while the worker is
stopped and one request waits for it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path

import psutil

from benchmarks.common import report
from benchmarks.common.command_line import new_parser
from benchmarks.common.development_sets import choose, read_sets
from benchmarks.common.http_connection import Address, Connection, free_port
from benchmarks.common.model_loader import open_model
from model.search.driver import translate
from model.search.options import DecodingOptions

ARRAY = 50
CORES = (2, 8, 16, 64)
_START_SECONDS, _ANSWER_SECONDS = 240, 10
_GENERATORS = 2
_FULL_SECONDS = 0.5  # until a request is accepted
_ONE_TOKEN = ("--queue-tokens", "1")
# a token of the echo is cheap as soon as it is measured: the bound would fall below what waits
_ROOM = ("--queue-tokens", "20000000")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of load: `array` sentences a request from `clients` clients."""

    name: str
    path: str
    array: int
    clients: int
    status: int = 200


KINDS = (
    Kind("single, 1 client", "/translate", 1, 1),
    Kind("single, 64 clients", "/translate", 1, 64),
    Kind(f"arrays of {ARRAY}, 8 clients", "/translate", ARRAY, 8),
    Kind("streams, 16 clients", "/translate?stream=true", 1, 16),
    Kind("refused, 64 clients", "/translate", 1, 64, 429),
)


@dataclass(slots=True)
class Measured:
    """The rounds of one kind on one server."""

    requests: list[float] = field(default_factory=list)  # a second
    microseconds: list[float] = field(default_factory=list)  # a request
    # microseconds a request, of the last round
    parts: dict[str, float] = field(default_factory=dict)
    errors: int = 0
    connections: list[list[int]] = field(default_factory=list)


class EchoServer:
    """A server of a checkout before an echo, with further flags."""

    def __init__(
        self, checkout: Path, model: Path, prepared: Path, samples: Path, *further: str
    ) -> None:
        self.samples, port = samples, free_port()
        self.address = Address.parse(f"http://127.0.0.1:{port}")
        flags = ["--port", str(port), "--weights", str(model.parent), *further]
        command = [sys.executable, "-m", "benchmarks.scale.server", str(prepared), str(samples)]
        tools = Path(__file__).resolve().parents[2]
        # the server of the checkout, the benchmark of this one
        path = os.pathsep.join((str(checkout), str(tools)))
        with samples.with_suffix(".log").open("wb") as log:
            environment = {**os.environ, "PYTHONPATH": path}
            self.process = subprocess.Popen(
                [*command, *flags], cwd=checkout, env=environment, stderr=log
            )
        self._main = psutil.Process(self.process.pid)
        self._several = int(further[-1]) if "--api-processes" in further else 0
        until = time.monotonic() + _START_SECONDS
        while not self._ready():
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError("The server does not start.")
            time.sleep(0.2)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.address.port}/ready", timeout=2
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def seconds(self) -> float:
        """Returns the processor time so far."""
        times = [process.cpu_times() for process in self._processes()]
        return float(sum(each.user + each.system for each in times))

    def connections(self) -> list[int]:
        """Returns the connections of each process that has some."""
        found = []
        for process in [self._main, *self._main.children()]:
            of_clients = [
                c
                for c in process.net_connections("tcp")
                if c.raddr and c.laddr.port == self.address.port
            ]
            found += [len(of_clients)] if of_clients else []
        return found

    def memory(self) -> list[int]:
        """Returns the bytes (PSS) of each process but the workers."""
        return [process.memory_full_info().pss for process in self._processes()]

    def _processes(self) -> list[psutil.Process]:
        """Returns the processes of the server but the workers."""
        children = [
            child
            for child in self._main.children()
            if "benchmarks.scale.echo_worker" not in child.cmdline()
        ]
        return [self._main, *children]

    def counts(self) -> dict[str, int]:
        """Returns the samples since the last call, by part; none of several processes. Raises
        RuntimeError where the server does not answer."""
        if self._several:
            return {}
        until = time.monotonic() + _ANSWER_SECONDS
        self.samples.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        while not self.samples.exists() or not (text := self.samples.read_text(encoding="utf-8")):
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError("The server does not write its samples.")
            time.sleep(0.02)
        found: dict[str, int] = json.loads(text)
        return found

    @contextmanager
    def full(self, body: bytes) -> Iterator[None]:
        """Stops the worker while the block runs, after each API process has accepted a request with
        this body."""
        workers = [
            process
            for process in self._main.children(recursive=True)
            if "benchmarks.scale.echo_worker" in process.cmdline()
        ]
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.address.port}/translate",
            body,
            {"Content-Type": "application/json"},
        )
        number = max(1, self._several)  # new connections go to the processes in turns
        with ThreadPoolExecutor(number) as threads:
            for worker in workers:
                worker.suspend()
            waiting = [
                threads.submit(lambda: urllib.request.urlopen(request).read())
                for _ in range(number)
            ]
            try:
                time.sleep(_FULL_SECONDS)
                yield
            finally:
                for worker in workers:
                    worker.resume()
            for each in waiting:
                each.result()

    def stop(self) -> None:
        """Ends the server."""
        self.process.terminate()
        self.process.wait(30)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    source, target = options.direction.split("-")
    sets = choose(read_sets(options.data, options.sets), [options.direction])
    texts = [text for item in sets for text in item.sources if len(text) <= options.longest][
        : options.sentences
    ]
    checkouts = {"this": Path.cwd()} | ({"base": options.base.resolve()} if options.base else {})
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.json"
        pairs, worker = _prepare(options.model, texts, target)
        prepared.write_text(json.dumps(pairs), encoding="utf-8")
        model = options.model.resolve()
        flags = {200: _ROOM, 429: _ONE_TOKEN}
        statuses = sorted({kind.status for kind in KINDS if options.kinds in kind.name})
        servers = {
            (name, status): EchoServer(
                path, model, prepared, Path(folder) / f"{name}{status}.json", *flags[status]
            )
            for name, path in checkouts.items()
            for status in statuses
        }
        for number in [1, *options.processes] if options.processes else ():
            several = ("--api-processes", str(number))
            for status in statuses:
                samples = Path(folder) / f"{number}-{status}.json"
                server = EchoServer(Path.cwd(), model, prepared, samples, *flags[status], *several)
                servers[f"{number} processes", status] = server
        try:
            found = _measure(servers, texts, (source, target), options)
            memory = {
                name: server.memory() for (name, status), server in servers.items() if status == 200
            }
        finally:
            for server in servers.values():
                server.stop()
    _print(found, sum(map(len, texts)) / len(texts))
    _print_model(found["this"], worker)
    for name, sizes in memory.items():
        print(
            f"\n{name}: PSS in MB of each process: "
            f"{', '.join(f'{size / 1e6:.1f}' for size in sizes)}"
        )
        spread = [sorted(each) for kind in found[name].values() for each in kind.connections]
        print(f"{name}: connections of each process, by round: {spread}")
    if options.json is not None:
        rows = {
            name: {kind: asdict(one) for kind, one in kinds.items()}
            for name, kinds in found.items()
        }
        options.json.write_text(
            json.dumps({"environment": report.environment(), "found": rows}, indent=1)
        )
    return 0


def _prepare(
    model: Path, texts: Sequence[str], target: str
) -> tuple[list[tuple[Sequence[int], Sequence[int]]], float]:
    """Returns (source ids, target ids) of each text, by the model itself on one thread, and the
    processor time of a text in seconds."""
    opened = open_model(model, engine="native", precision="int8", slots=64, threads=1)
    config = opened.config
    sources = [opened.tokenizer.encode(text, target).ids for text in texts]
    began = time.process_time()
    found = translate(opened.backend, sources, DecodingOptions(), config, opened.generation)
    seconds = (time.process_time() - began) / len(texts)
    return [(source, best[0].tokens) for source, best in zip(sources, found, strict=True)], seconds


def _measure(
    servers: dict[tuple[str, int], EchoServer],
    texts: list[str],
    pair: tuple[str, str],
    options: argparse.Namespace,
) -> dict[str, dict[str, Measured]]:
    """Runs the rounds of all kinds on the servers, which are by name and expected status, in
    turns."""
    names = list(dict.fromkeys(name for name, _ in servers))
    found = {name: {kind.name: Measured() for kind in KINDS} for name in names}
    with ProcessPoolExecutor(_GENERATORS) as generators:
        for round_number in range(options.rounds + 1):  # the first one warms up
            for kind in [kind for kind in KINDS if options.kinds in kind.name]:
                for name in names:
                    seconds = options.seconds if round_number else 1.0
                    _round(
                        servers[name, kind.status],
                        kind,
                        generators,
                        texts,
                        pair,
                        seconds,
                        found[name][kind.name],
                    )
            for kinds in found.values() if not round_number else ():
                kinds.update({kind.name: Measured() for kind in KINDS})
    return found


def _round(
    server: EchoServer,
    kind: Kind,
    generators: ProcessPoolExecutor,
    texts: list[str],
    pair: tuple[str, str],
    seconds: float,
    measured: Measured,
) -> None:
    new = f"{texts[0]} {len(measured.requests)} {time.time()}"  # is in no cache
    first = json.dumps({"q": new, "source": pair[0], "target": pair[1]}).encode()
    with nullcontext() if kind.status == 200 else server.full(first):
        server.counts()
        before = server.seconds()
        answered, failed, passed = _load(generators, server, kind, texts, pair, seconds, measured)
        spent, counts = server.seconds() - before, server.counts()
    if answered:
        samples = max(1, sum(counts.values()))
        measured.requests.append(answered / passed)
        measured.microseconds.append(1e6 * spent / answered)
        measured.parts = {part: 1e6 * spent / answered * n / samples for part, n in counts.items()}
        measured.errors += failed


def _load(
    generators: ProcessPoolExecutor,
    server: EchoServer,
    kind: Kind,
    texts: list[str],
    pair: tuple[str, str],
    seconds: float,
    measured: Measured,
) -> tuple[int, int, float]:
    """Sends requests, and counts connections half-way. Returns those with the status of the kind,
    the others, and the seconds."""
    number = min(_GENERATORS, kind.clients)
    began = time.perf_counter()
    parts = [
        generators.submit(
            _generate,
            server.address,
            kind,
            texts[first:] + texts[:first],
            pair,
            kind.clients // number,
            seconds,
        )
        # equal texts at a time would be translated once
        for first in range(0, len(texts), -(-len(texts) // number))
    ]
    time.sleep(seconds / 2)
    measured.connections.append(server.connections())
    results = [part.result() for part in parts]
    passed = time.perf_counter() - began
    return sum(result[0] for result in results), sum(result[1] for result in results), passed


def _generate(
    address: Address,
    kind: Kind,
    texts: list[str],
    pair: tuple[str, str],
    clients: int,
    seconds: float,
) -> tuple[int, int]:
    """Sends requests from one process. Returns how many had the status of the kind, and how many
    another one."""
    bodies = []
    for first in range(0, len(texts), kind.array):
        chosen = texts[first : first + kind.array]
        fields = {
            "q": chosen if kind.array > 1 else chosen[0],
            "source": pair[0],
            "target": pair[1],
        }
        bodies.append(json.dumps(fields).encode())
    endless = cycle(bodies)
    counts = [0, 0]

    async def client() -> None:
        connection = Connection(address)
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            status, _ = await connection.post(kind.path, next(endless))
            counts[status != kind.status] += 1
        connection.close()

    async def run() -> None:
        await asyncio.gather(*(client() for _ in range(clients)))

    asyncio.run(run())
    return counts[0], counts[1]


def _print(found: dict[str, dict[str, Measured]], characters: float) -> None:
    print(
        f"Sentences of {characters:.0f} characters in the mean; medians; microseconds of the API "
        "process.\n"
    )
    rows: list[tuple[object, ...]] = []
    for kind in KINDS:
        for name, kinds in found.items():
            one = kinds[kind.name]
            if one.requests:
                spent = statistics.median(one.microseconds)
                least = min(one.microseconds)
                rate = statistics.median(one.requests)
                rows.append((kind.name, name, rate, spent, least, spent / kind.array, one.errors))
    columns = ("load", "server", "requests/s", "us a request", "least", "us a sentence", "errors")
    print(report.table(columns, rows))
    for name, kinds in found.items():
        names = sorted({part for one in kinds.values() for part in one.parts})
        parts = [
            (part, *(kinds[kind.name].parts.get(part, 0.0) for kind in KINDS)) for part in names
        ]
        print(f"\n{name}: us a request by part\n")
        print(report.table(("part", *(kind.name for kind in KINDS)), parts))


def _print_model(kinds: dict[str, Measured], worker: float) -> None:
    """Prints the capacity of workers on some cores behind one API process, and the number of API
    processes that would feed them. `worker` is the seconds of a core for a sentence."""
    rows = []
    for kind in KINDS:
        measured = kinds[kind.name].microseconds
        if measured and kind.status == 200 and kind.clients > 1:
            api = 1e-6 * statistics.median(measured) / kind.array
            for cores in CORES:
                rate, processes = cores / worker, cores * api / worker
                rows.append((kind.name, cores, rate, min(rate, 1 / api), processes))
    print(
        f"\nA core of a worker takes {1e3 * worker:.2f} ms a sentence. Sentences a second if cores "
        "add up:\n"
    )
    columns = ("these", "behind one API process", "API processes that feed them")
    print(report.table(("load", "cores of workers", *columns), rows))


def _parser() -> argparse.ArgumentParser:
    shared = ("--model", "--data", "--sets", "--direction", "--rounds", "--json")
    parser = new_parser("scale", __doc__, *shared)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--longest", type=int, default=1000, metavar="CHARACTERS")
    parser.add_argument(
        "--kinds", default="", help="only the kinds of load whose name contains this"
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--base", type=Path, help="another checkout")
    parser.add_argument(
        "--processes", type=int, nargs="*", default=[], help="numbers of API processes, beside one"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
