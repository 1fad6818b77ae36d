"""Endurance runs against a server that this program starts: overload, killed workers, a stop under load, one caller
with big requests, documents that need much memory, unfinished requests, and the history on disk; and against two servers
with shared state behind HAProxy.

    python -m benchmarks.endurance overload --weights weights --seconds 600
    python -m benchmarks.endurance kills --clients 32 --seconds 180 --every 20
    python -m benchmarks.endurance drain --clients 64 --sentences 20
    python -m benchmarks.endurance documents --documents 64 --paragraphs 480000
    python -m benchmarks.endurance hog --clients 32 --seconds 6
    python -m benchmarks.endurance heads --megabytes 400 --connections 2000
    python -m benchmarks.endurance disk -- --history-bytes 1000000
    python -m benchmarks.endurance replicas --minutes 5
    python -m benchmarks.endurance replicas --minutes 5 --compose "docker compose"
    python -m benchmarks.endurance replicas --minutes 1 --stop

Every answer is compared with the one that the same text got before on an idle server. Arguments after `--` are flags of
the server. The exit status is 1 if any answer was lost, wrong, repeated or miscounted. Times are reported, not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import report
from benchmarks.endurance.client import references
from benchmarks.endurance.disk import disk
from benchmarks.endurance.documents import documents as unpacking
from benchmarks.endurance.drain import drain
from benchmarks.endurance.fleet import fleet
from benchmarks.endurance.heads import heads
from benchmarks.endurance.hog import hog
from benchmarks.endurance.kills import kills
from benchmarks.endurance.overload import overload
from benchmarks.endurance.replicas import replicas
from benchmarks.endurance.server import serving
from benchmarks.endurance.texts import documents, made_texts, read_texts

_NONE = ("failures", "wrong", "repeated ids", "stray answers", "lost", "metrics minus clients", "exit status",
         "refusals counted minus 429s", "refused", "state that differs")  # fmt: skip
"""Figures that must be zero or empty."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        texts = read_texts(options.texts, options.number) if options.texts else made_texts(options.number)
        result = asyncio.run(_run(options, documents(texts, options.sentences)))
    except (ValueError, OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    for name, value in result.items():
        print(f"{name + ':':36} {dict(value) if isinstance(value, dict) else value}")
    if options.json:
        report.write(options.json, {"benchmark": f"endurance {options.what}", "server": options.server, **result})
    broken = [name for name in _NONE if result.get(name)]
    if broken:
        print("Not zero or empty: " + ", ".join(broken), file=sys.stderr)
    return 1 if broken else 0


async def _run(options: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    flags = ["--weights", str(options.weights), *options.server]
    if options.what == "drain":
        flags = ["--grace-seconds", str(options.grace), *flags]
    if options.what == "replicas":
        return await _replicas(options, texts, flags)
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        async with serving(flags, Path(folder)) as served:
            requests = await references(served.address, texts, options.source, options.target)
            shape = {"sentences per request": options.sentences, "texts": len(texts)}
            match options.what:
                case "overload":
                    found = await overload(
                        served, requests, options.sentences, options.clients, options.seconds, options.factor,
                        options.patient,
                    )  # fmt: skip
                case "kills":
                    found = await kills(
                        served, requests, options.sentences, options.clients, options.seconds, options.every,
                        options.requests,
                    )  # fmt: skip
                case "documents":
                    found = await unpacking(
                        served, requests, options.clients, options.seconds, options.documents, options.paragraphs
                    )
                case "hog":
                    found = await hog(
                        served, requests, options.source, options.target, options.clients, options.seconds,
                        options.patience, options.kinds,
                    )  # fmt: skip
                case "heads":
                    found = await heads(
                        served, requests, options.megabytes, options.connections, options.bodies, options.seconds
                    )
                case "disk":
                    found = await disk(served, requests, options.requests)
                case _:
                    found = await drain(served, requests, options.clients, options.seconds, options.grace)
            return {**shape, **found}


async def _replicas(options: argparse.Namespace, texts: list[str], flags: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        async with fleet(Path(folder), flags, options.compose, options.front) as found:
            requests = await references(found.front, texts, options.source, options.target)
            return await replicas(found, requests, options.clients, 60 * options.minutes, options.every, options.stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.endurance", description=(__doc__ or "").split("\n\n")[0]
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--weights", type=Path, default=Path("weights"), help="folder of models (default: weights)")
    common.add_argument("--source", default="en")
    common.add_argument("--target", default="de")
    common.add_argument("--texts", type=Path, help="file with one text a line (default: sentences made here)")
    common.add_argument("--number", type=int, default=500, help="number of different texts to send")
    common.add_argument("--sentences", type=int, default=1, help="texts joined into one request")
    common.add_argument("--json", type=Path, help="write the result here")
    common.add_argument("server", nargs="*", help="flags for `attentive serve`, after --")
    what = parser.add_subparsers(dest="what", required=True)
    load = what.add_parser("overload", parents=[common], help="more requests than the capacity of the server")
    load.add_argument("--clients", type=int, default=16, help="clients that measure the capacity")
    load.add_argument("--seconds", type=float, default=600.0)
    load.add_argument("--factor", type=float, default=2.0, help="load as a multiple of the capacity")
    load.add_argument(
        "--patient", type=float, default=0.5, help="share of rejected clients that retry after Retry-After"
    )
    kill = what.add_parser("kills", parents=[common], help="kill -9 of the worker under load")
    kill.add_argument("--clients", type=int, default=32)
    kill.add_argument("--seconds", type=float, default=180.0)
    kill.add_argument("--every", type=float, default=20.0, help="seconds between kills")
    kill.add_argument(
        "--requests", type=int, default=0, help="stop when each client has sent this many requests (0: no bound)"
    )
    files = what.add_parser("documents", parents=[common], help="files of very many paragraphs beside single sentences")
    files.add_argument("--clients", type=int, default=4, help="clients that send single sentences")
    files.add_argument("--seconds", type=float, default=10.0, help="seconds of sentences before the documents")
    files.add_argument("--documents", type=int, default=64)
    files.add_argument("--paragraphs", type=int, default=480_000, help="paragraphs of each document")
    stop = what.add_parser("drain", parents=[common], help="SIGTERM under load")
    stop.add_argument("--clients", type=int, default=64)
    stop.add_argument("--seconds", type=float, default=5.0, help="seconds of load before the signal")
    big = what.add_parser("hog", parents=[common], help="one caller with big requests beside clients with sentences")
    big.add_argument("--clients", type=int, default=32)
    big.add_argument("--seconds", type=float, default=6.0, help="seconds of each measurement")
    big.add_argument("--patience", type=float, default=60.0, help="longest wait for a legal hog's answer, in seconds")
    big.add_argument("--kinds", default="", help="only the kinds of hogs whose name contains this")
    slow = what.add_parser("heads", parents=[common], help="heads and bodies that never arrive whole")
    slow.add_argument("--megabytes", type=int, default=400, help="size of the endless head")
    slow.add_argument("--connections", type=int, default=2_000, help="connections with a slow head")
    slow.add_argument("--bodies", type=int, default=60, help="connections with 5 MB of an unfinished body")
    slow.add_argument("--seconds", type=float, default=25.0, help="time for which slow heads are held")
    stored = what.add_parser("disk", parents=[common], help="bytes of the history on disk")
    stored.add_argument("--requests", type=int, default=60, help="texts of 90,000 characters")
    two = what.add_parser(
        "replicas", parents=[common], help="two servers behind HAProxy; they and Redis are killed in turn"
    )
    two.add_argument("--clients", type=int, default=32)
    two.add_argument("--minutes", type=float, default=5.0)
    two.add_argument("--every", type=float, default=5.0, help="seconds between a recovery and the next kill")
    two.add_argument("--stop", action="store_true", help="end the servers with SIGTERM in turn, and kill nothing")
    two.add_argument(
        "--compose", default="", help="the command of compose, where the profile `scaled` runs (default: processes)"
    )
    two.add_argument("--front", default="https://localhost:8443", help="address of HAProxy, with --compose")
    stop.add_argument("--grace", type=float, default=30.0, help="--grace-seconds of the server")
    return parser


if __name__ == "__main__":
    sys.exit(main())
