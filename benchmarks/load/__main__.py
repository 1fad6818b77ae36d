"""HTTP load of 1 to 128 clients on one LibreTranslate-compatible server, or on two in turn:
throughput, latency, errors.

    python -m benchmarks.load http://127.0.0.1:8000 http://127.0.0.1:5000 --names attentive peer
        --data DATA \\ --sets tatoeba-dev --direction en-de --clients 1 8 32 64 128 --seconds 5
        --json load.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks.common.command_line import new_parser, publish
from benchmarks.common.development_sets import choose, read_sets
from benchmarks.common.http_connection import Address
from benchmarks.load.closed_loop import Job, Round, jobs, run
from model.evaluation import score

_HEADER = (
    "system",
    "clients",
    "sentences/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "requests",
    "errors",
    "BLEU",
)
_TIMES = ("front us", "workers us")
"""Processor time per request in the listening process and in its child processes."""


@dataclass(slots=True)
class System:
    """A server under load with its own iterator over the requests. `processes` are the one that
    listens and its children; none if processor time is not measured."""

    name: str
    address: Address
    pool: Iterator[Job]
    processes: Sequence[psutil.Process]

    def spent(self) -> tuple[float, float]:
        """Returns the seconds of processor time of the first process and of the others."""
        seconds = [0.0] * len(self.processes)
        for number, process in enumerate(self.processes):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                seconds[number] = times.user + times.system
        return sum(seconds[:1]), sum(seconds[1:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        sets = choose(read_sets(options.data, options.sets), [options.direction])
        if not sets:
            raise ValueError(f"There is no set for {options.direction}.")
        sources = [text for item in sets for text in item.sources]
        references = [text for item in sets for text in item.references]
        addresses = [Address.parse(url) for url in options.urls]
        processes = [
            _listening(address.port) if options.processor_time else () for address in addresses
        ]
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    source, target = options.direction.split("-", 1)
    is_html = options.format == "html"
    names = [
        options.names[i] if i < len(options.names) else url for i, url in enumerate(options.urls)
    ]
    systems = [
        System(
            name,
            address,
            jobs(sources, source, target, options.beam_size, options.fields, is_html),
            server,
        )
        for name, address, server in zip(names, addresses, processes, strict=True)
    ]
    rows = asyncio.run(_measure(systems, options, (references, target)))
    header = _HEADER + (_TIMES if options.processor_time else ())
    settings = {name: getattr(options, name) for name in ("direction", "format", "beam_size")}
    publish(options, header, rows, benchmark="load", **settings)
    return 0


async def _measure(
    systems: list[System], options: argparse.Namespace, scored: tuple[Sequence[str], str]
) -> list[dict[str, Any]]:
    """Measures every number of clients on every system, in turns (A B A B)."""

    def load(system: System, clients: int, seconds: float) -> Awaitable[Round]:
        return run(system.address, system.pool, clients, seconds, options.timeout, options.cached)

    rows: list[dict[str, Any]] = []
    total = len(options.clients) * len(systems) * options.rounds
    with tqdm(total=total, unit="round", disable=None) as bar:
        for system in systems:
            await load(system, 4, min(1.0, options.seconds))  # warm-up
        for clients in options.clients:
            rounds: dict[str, list[Round]] = {system.name: [] for system in systems}
            spent = {system.name: [0.0, 0.0] for system in systems}
            for _ in range(options.rounds):
                for system in systems:
                    before = system.spent()
                    rounds[system.name].append(await load(system, clients, options.seconds))
                    for number, (now, then) in enumerate(zip(system.spent(), before, strict=True)):
                        spent[system.name][number] += now - then
                    bar.update()
            for system in systems:
                row = _row(system.name, clients, rounds[system.name], scored)
                rows.append(
                    row | (_times(spent[system.name], row["requests"]) if system.processes else {})
                )
    return rows


def _listening(port: int) -> tuple[psutil.Process, ...]:
    """Returns the process that listens on a TCP port of this machine, and its children. Raises
    ValueError if there is none or it is not readable."""
    for connection in psutil.net_connections("tcp"):
        listens = connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,)
        if listens and connection.pid:
            front = psutil.Process(connection.pid)
            return front, *front.children(recursive=True)
    raise ValueError(f"No readable process of this machine listens on port {port}.")


def _times(spent: Sequence[float], requests: int) -> dict[str, float]:
    return {name: 1e6 * each / max(1, requests) for name, each in zip(_TIMES, spent, strict=True)}


def _row(
    name: str, clients: int, rounds: list[Round], scored: tuple[Sequence[str], str]
) -> dict[str, Any]:
    """Returns one row of the table: medians over the rounds and the sum of errors."""
    answers = [answer for item in rounds for answer in item.answers]
    done = {
        answer.job.text: _words(answer.translation)
        for answer in answers
        if answer.translation is not None
    }
    bleu: float | str = "-"
    references, target = scored
    if done:
        bleu = score([*done.values()], [references[i] for i in done], target).bleu
    latency = {
        f"p{share} ms": 1000 * statistics.median(item.latency(share / 100) for item in rounds)
        for share in (50, 95, 99)
    }
    return {
        "system": name,
        "clients": clients,
        "sentences/s": statistics.median(item.sentences_per_second for item in rounds),
        **latency,
        "requests": len(answers),
        "errors": sum(item.errors for item in rounds),
        "BLEU": bleu,
        "kinds of errors": dict(Counter(answer.error for answer in answers if answer.error)),
        "sentences/s of each round": [round(item.sentences_per_second, 1) for item in rounds],
    }


def _words(translation: str) -> str:
    """Returns a translation without markup, as it is compared with its reference."""
    return unescape(re.sub(r"</?[ab]\b[^>]*>", "", translation))


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("load", __doc__, "--data", "--sets", "--direction", "--json")
    parser.add_argument(
        "urls", nargs="+", metavar="URL", help="one server, or several that are measured in turn"
    )
    parser.add_argument(
        "--names", nargs="+", default=[], help="names of the servers in the results"
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 64, 128])
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of one round")
    parser.add_argument(
        "--rounds", type=int, default=2, help="rounds per number of clients and server"
    )
    parser.add_argument(
        "--format",
        choices=("text", "html"),
        default="text",
        help="html: each sentence has one or two tags",
    )
    parser.add_argument(
        "--beam-size", type=int, help="beam_size of each request (a field of this server)"
    )
    parser.add_argument(
        "--fields",
        type=json.loads,
        default={},
        metavar="JSON",
        help='more fields of each request; use {"max_length": 32, "loop_guard": false} with random '
        "weights",
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="also measure the processor time per request (server on the same machine)",
    )
    parser.add_argument(
        "--cached", action="store_true", help="accept answers from the server's result cache"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, help="seconds after which a request counts as failed"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
