"""Plots of results, as SVG or PNG depending on the file name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v")


def draw_load(rows: Sequence[dict[str, Any]], sentences: int, path: Path) -> None:
    """Plots sentences per second and latency (p50 solid, p99 dashed) over the number of clients."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    speed, latency = figure.subplots(1, 2)
    for number, name in enumerate(dict.fromkeys(row["system"] for row in rows)):
        own = [row for row in rows if row["system"] == name]
        clients = [row["clients"] for row in own]
        style = {"color": f"C{number}", "marker": _MARKERS[number % len(_MARKERS)]}
        speed.plot(clients, [row["sentences/s"] for row in own], label=name, **style)
        latency.plot(clients, [row["p50 ms"] for row in own], label=f"{name}, p50", **style)
        latency.plot(clients, [row["p99 ms"] for row in own], label=f"{name}, p99", linestyle="--", **style)
    ticks = sorted({row["clients"] for row in rows})
    for axes, label in ((speed, "sentences per second"), (latency, "latency (ms)")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlabel("clients" if sentences == 1 else f"clients, each with documents of {sentences} sentences")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend()
    latency.set_yscale("log")
    speed.set_ylim(bottom=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
