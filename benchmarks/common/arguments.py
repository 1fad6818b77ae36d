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
