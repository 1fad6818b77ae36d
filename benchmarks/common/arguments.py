"""Command-line options shared by several benchmarks. Imports only the standard library, because some measure memory."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for a model folder or for a preset with random weights."""
    system = parser.add_mutually_exclusive_group(required=True)
    system.add_argument("--model", type=Path, help="a model folder")
    system.add_argument("--random", metavar="PRESET", help="random weights of this shape: base, big, small")
    parser.add_argument("--vocabulary", type=int, default=32_000, help="vocabulary size of the random model")


def add_local_options(parser: argparse.ArgumentParser, *, limit: int, threads: int) -> None:
    """Adds the options of a benchmark that translates development sets with a server's parts in its own process.
    `limit` and `threads` are their defaults."""
    parser.add_argument("weights", type=Path, help="folder of model folders")
    parser.add_argument("--data", type=Path, required=True, help="folder with SET.en-XX.tsv")
    parser.add_argument("--sets", nargs="+", default=["flores-dev", "tatoeba-dev"], help="names of the sets")
    parser.add_argument("--limit", type=int, default=limit, help="pairs of each set and direction")
    parser.add_argument("--threads", type=int, default=threads, help="threads of the CPU backend; 0 is every core")
    parser.add_argument("--json", type=Path, help="write the results here")


def add_server_options(parser: argparse.ArgumentParser, *, limit: int | None) -> None:
    """Adds the options of a benchmark that translates development sets through a server. `limit` is its default."""
    parser.add_argument("url", help="a server that answers POST /translate")
    parser.add_argument("--data", type=Path, required=True, help="folder with SET.en-XX.tsv files")
    parser.add_argument("--sets", nargs="+", default=["flores-dev"], help="names of the sets")
    parser.add_argument("--directions", nargs="+", default=[], help="en-de de-en ... (default: all that are served)")
    parser.add_argument("--limit", type=int, default=limit, help="the first N pairs of each set")
    parser.add_argument("--batch", type=int, default=50, help="texts in one request")
    parser.add_argument("--json", type=Path, help="write the results here")
