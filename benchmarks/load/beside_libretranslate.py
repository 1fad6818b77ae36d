"""Compares this server with LibreTranslate on the same weights, in turns: throughput, latency and
processor time.

    python -m benchmarks.load.beside_libretranslate --model weights/NAME --python LT/bin/python
    --data DATA --sets tatoeba-dev

LT is an environment with `pip install libretranslate==1.9.6`. The model is exported as Argos
packages in int8. Both servers compute with `--threads` threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common.command_line import new_parser, publish
from benchmarks.common.http_connection import free_port
from benchmarks.load.__main__ import main as load
from benchmarks.robustness.server import serving
from model.convert.argos import export_argos
from model.model_folder import read_folder
from server.text.languages import language_name

SERVER = Path(__file__).with_name("libretranslate_server.py")
START_SECONDS = 300.0
COMPARISONS = {
    "defaults": (None, "4"),
    "greedy": (1, "1"),
    "beam 4": (4, "4"),
}
"""Beam width that our requests ask for, and that of LibreTranslate, which is a setting of the
server. Its default is 4, and ours is that of the model."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        packages = export(options.model, options.direction, Path(scratch))
        rows = asyncio.run(_measure(options, packages, Path(scratch)))
    header = [name for name in rows[0] if name != "measured"]
    publish(options, header, rows, benchmark="load.beside_libretranslate", threads=options.threads)
    return 0


def export(model: Path, direction: str, folder: Path) -> list[Path]:
    """Returns the packages of a direction and of its reverse: with one package LibreTranslate would
    download others."""
    source, target = direction.split("-")
    files = []
    for one, other in ((source, target), (target, source)):
        file = folder / f"{one}_{other}.argosmodel"
        export_argos(
            read_folder(model),
            file,
            source=one,
            target=other,
            quantization="int8",
            language_name=language_name,
        )
        files.append(file)
    return files


async def _measure(
    options: argparse.Namespace, packages: Sequence[Path], scratch: Path
) -> list[dict[str, object]]:
    """Returns a row for each comparison and number of clients."""
    rows: list[dict[str, object]] = []
    ours = ["--threads", str(options.threads), "--weights", str(options.model)]
    async with serving(ours, scratch) as served:
        for name in options.comparisons:
            beam, theirs = COMPARISONS[name]
            with libretranslate(options.python, options.threads, theirs, packages) as url:
                urls = [f"http://{served.address.host}:{served.address.port}", url]
                rows += await asyncio.to_thread(
                    compare, name, urls, beam, options, scratch / "load.json"
                )
    return rows


def compare(
    name: str, urls: Sequence[str], beam: int | None, options: argparse.Namespace, file: Path
) -> list[dict[str, object]]:
    """Runs `benchmarks.load` on both servers and returns a row for each number of clients."""
    command = [*urls, "--names", "attentive", "libretranslate", "--processor-time"]
    command += ["--json", str(file), "--data", str(options.data), "--sets", *options.sets]
    command += ["--direction", options.direction]
    command += ["--clients", *map(str, options.clients), "--rounds", str(options.rounds)]
    command += ["--seconds", str(options.seconds)] + (["--beam-size", str(beam)] if beam else [])
    if load(command):
        raise RuntimeError("The load could not be measured.")
    measured = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return [
        ratios(name, *[row for row in measured if row["clients"] == clients])
        for clients in options.clients
    ]


def ratios(name: str, ours: dict[str, float], theirs: dict[str, float]) -> dict[str, object]:
    """Returns one row: both servers at one number of clients, and their ratios. "API process us" is
    the part of our listening process in "processor us"; "measured" has all figures of both."""
    spent = [row["front us"] + row["workers us"] for row in (ours, theirs)]
    return {
        "comparison": name,
        "clients": ours["clients"],
        "sentences/s": ours["sentences/s"],
        "theirs": theirs["sentences/s"],
        "ratio": ours["sentences/s"] / theirs["sentences/s"] if theirs["sentences/s"] else 0.0,
        "processor us": spent[0],
        "API process us": ours["front us"],
        "their processor us": spent[1],
        "ratio of processor time": spent[1] / spent[0] if spent[0] else 0.0,
        "errors": ours["errors"],
        "their errors": theirs["errors"],
        "measured": [ours, theirs],
    }


@contextmanager
def libretranslate(
    python: Path, threads: int, beam_size: str, packages: Sequence[Path]
) -> Iterator[str]:
    """Runs LibreTranslate on a free port and yields its address once it listens. Raises
    RuntimeError if it ends first."""
    port = free_port()
    command = [str(python), str(SERVER), "--port", str(port), "--threads", str(threads)]
    command += ["--beam-size", beam_size, *map(str, packages)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    "LibreTranslate did not start; run benchmarks/load/libretranslate_server.py to "
                    "see why."
                )
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _parser() -> argparse.ArgumentParser:
    shared = ("--model", "--data", "--sets", "--direction", "--threads", "--json")
    parser = new_parser("load.beside_libretranslate", __doc__, *shared)
    parser.add_argument(
        "--python", type=Path, required=True, help="Python of an environment with LibreTranslate"
    )
    parser.add_argument("--comparisons", nargs="+", choices=COMPARISONS, default=list(COMPARISONS))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of one round")
    parser.add_argument(
        "--rounds", type=int, default=2, help="rounds per number of clients and server"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
