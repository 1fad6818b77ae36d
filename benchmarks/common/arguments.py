"""Command-line options that several benchmarks share. Imports nothing heavy: some of them measure memory."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Either a model folder, or a preset with random weights and the size of its vocabulary."""
    system = parser.add_mutually_exclusive_group(required=True)
    system.add_argument("--model", type=Path, help="a model folder")
    system.add_argument("--random", metavar="PRESET", help="random weights of this shape instead: base, big, small")
    parser.add_argument("--vocabulary", type=int, default=32_000, help="pieces of the random model")
