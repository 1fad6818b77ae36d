"""Measured speed of machines: tokens per second by the number of sentences that are decoded together."""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("measured_machines.csv")
REQUEST = 0.00059
"""Seconds of the API process for a request with one sentence beside a base model (load-base-before-after-1-core.json in
results/); decoding is assumed to stop meanwhile."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Measured seconds in which every one of `batches` running sentences gets one token, encoding included. At most the
    largest of `batches` run together."""

    batches: tuple[int, ...]
    seconds: tuple[float, ...]

    def step(self, running: int) -> float:
        """Returns the seconds of a step, interpolated between the measured batches."""
        points = zip(self.batches, self.seconds, strict=True)
        for (low, early), (high, late) in itertools.pairwise(points):
            if running <= high:
                return early + (late - early) * (running - low) / (high - low)
        return self.seconds[-1]

    def sentences_per_second(self, tokens: float) -> float:
        """Returns the capacity: sentences of `tokens` tokens per second with all slots in use."""
        return 1 / (tokens * self.seconds[-1] / self.batches[-1] + REQUEST)


def machines(path: Path = TABLE) -> dict[str, Machine]:
    """Returns the measured machines by name."""
    rows: dict[str, list[tuple[int, float]]] = {}
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            batch = int(row["batch"])
            rows.setdefault(row["machine"], []).append((batch, batch / float(row["tokens_per_second"])))
    return {name: Machine(*zip(*sorted(pairs), strict=True)) for name, pairs in rows.items()}
