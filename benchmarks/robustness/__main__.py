"""Runs against a server that this program starts: overload, killed workers, and one caller with
big requests.

    python -m benchmarks.robustness overload --seconds 600 -- --threads 1
    python -m benchmarks.robustness kills --clients 32 --seconds 180 --every 20
    python -m benchmarks.robustness hog --clients 32 --seconds 6

Every answer is compared with the one that the same text got before on an idle server. Arguments
after `--` are flags of the server. The exit status is 1 if any answer was lost, wrong, repeated or
miscounted. Times are reported, not judged.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.common import report
from benchmarks.robustness.client import documents, made_texts, references
from benchmarks.robustness.hog import hog
from benchmarks.robustness.overload import kills, overload
from benchmarks.robustness.server import serving

_NONE = (
    "failures",
    "wrong",
    "repeated ids",
    "metrics minus clients",
    "refusals counted minus 429s",
    "refused",
)
"""Figures that must be zero or empty."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        result = uvloop.run(_run(options, documents(made_texts(options.number), options.sentences)))
    except (ValueError, OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    for name, value in result.items():
        print(f"{name + ':':36} {dict(value) if isinstance(value, dict) else value}")
    if options.json:
        report.write(
            options.json,
            {"benchmark": f"robustness {options.what}", "server": options.server, **result},
        )
    broken = [name for name in _NONE if result.get(name)]
    if broken:
        print("Not zero or empty: " + ", ".join(broken), file=sys.stderr)
    return 1 if broken else 0


async def _run(options: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="robustness-") as folder:
        async with serving(
            ["--weights", str(options.weights), *options.server], Path(folder)
        ) as served:
            requests = await references(served.address, texts, options.source, options.target)
            measure = {"overload": overload, "kills": kills, "hog": hog}[options.what]
            figures = await measure(served, requests, options)
            return {"sentences per request": options.sentences, "texts": len(texts), **figures}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.robustness", description=(__doc__ or "").split("\n\n")[0]
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--weights", type=Path, default=Path("weights"), help="folder of models (default: weights)"
    )
    common.add_argument("--source", default="en")
    common.add_argument("--target", default="de")
    common.add_argument("--number", type=int, default=500, help="number of different texts to send")
    common.add_argument("--sentences", type=int, default=1, help="texts joined into one request")
    common.add_argument("--json", type=Path, help="write the result here")
    common.add_argument("server", nargs="*", help="flags for `attentive serve`, after --")
    commands = parser.add_subparsers(dest="what", required=True)

    def add(name: str, help: str, clients: int, seconds: float) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=help)
        command.add_argument("--clients", type=int, default=clients)
        command.add_argument("--seconds", type=float, default=seconds)
        return command

    load = add("overload", "more requests than the capacity of the server", 16, 600.0)
    load.add_argument(
        "--factor", type=float, default=2.0, help="load as a multiple of the capacity"
    )
    load.add_argument(
        "--patient", type=float, default=0.5, help="share of rejected clients that retry as told"
    )
    kill = add("kills", "kill -9 of the worker under load", 32, 180.0)
    kill.add_argument("--every", type=float, default=20.0, help="seconds between kills")
    big = add("hog", "one caller with big requests beside clients with sentences", 32, 6.0)
    big.add_argument(
        "--patience",
        type=float,
        default=60.0,
        help="longest wait for a legal hog's answer, in seconds",
    )
    big.add_argument(
        "--kinds", default="", help="only hogs whose name contains this, or one of A|B|C"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
