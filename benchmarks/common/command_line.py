"""Common options, errors and results of the command lines of the benchmarks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from attentive import ServerError
from benchmarks.common import report

_OPTIONS: dict[str, dict[str, Any]] = {
    "--model": {"type": Path, "required": True, "help": "a model folder"},
    "--data": {"type": Path, "required": True, "help": "folder with files SET.en-XX.tsv"},
    "--set": {"default": "tatoeba-dev", "help": "default: %(default)s"},
    "--sets": {"nargs": "+", "default": [], "help": "names of sets (default: all in the folder)"},
    "--limit": {"type": int, "help": "the first N pairs of each set"},
    "--direction": {"default": "en-de"},
    "--threads": {"type": int, "default": 1},
    "--rounds": {"type": int, "default": 3, "help": "counted turns, after one warm-up turn"},
    "--json": {"type": Path, "help": "write the results here"},
}


def new_parser(name: str, doc: str | None, *shared: str) -> argparse.ArgumentParser:
    """Returns the parser of `python -m benchmarks.NAME` with some of the shared options."""
    description = (doc or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    for option in shared:
        parser.add_argument(option, **_OPTIONS[option])
    return parser


def run(measure: Callable[[], None]) -> int:
    """Runs a measurement and returns the exit status. An expected error is one line."""
    try:
        measure()
    except (ServerError, httpx.HTTPError, OSError, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def publish(
    options: argparse.Namespace,
    header: Sequence[str],
    rows: Sequence[dict[str, Any]],
    **settings: Any,
) -> None:
    """Prints the columns `header` of the rows, and writes all of them to `--json`."""
    print(report.table(header, [[row[name] for name in header] for row in rows]))
    if options.json:
        report.write(options.json, {**settings, "rows": list(rows)})
