"""The learning curve as an SVG file: training and development loss over target tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def draw_curve(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Draws the losses of log lines (nats per token) to the SVG file `path`."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for key, label, style in (
        ("loss", "training, label smoothing 0.1", "-"),
        ("development_loss", "development, unsmoothed", "o-"),
    ):
        points = [(line["tokens"] / 1e6, line[key]) for line in lines if key in line]
        if points:
            axes.plot([x for x, _ in points], [y for _, y in points], style, label=label, linewidth=1.2, markersize=3)
    axes.set_xlabel("target tokens seen (millions)")
    axes.set_ylabel("loss (nats per token)")
    axes.set_yscale("log")
    for axis_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        axis_formatter(ScalarFormatter())
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path)
