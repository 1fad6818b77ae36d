"""Which examples share a batch: those of like lengths, so that little of a batch is padding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Indices of the examples of one batch, and the widths that their sources and targets are padded to."""

    members: NDArray[np.int64]
    source_width: int
    target_width: int


def equal_products(sources: Lengths, targets: Lengths, batch_tokens: int, longest: int) -> list[Bucket]:
    """Buckets for a CPU: sources and targets have one width, a divisor of `batch_tokens`, and every bucket fills
    `batch_tokens` exactly. All products over its tokens have one shape, so kernels that are generated per shape are
    generated once. What does not fill a bucket of its width goes up to the next; the longest rest is dropped."""
    ladder = width_ladder(batch_tokens, longest)
    rung = np.searchsorted(ladder, np.maximum(sources, targets))
    found: list[Bucket] = []
    rest = np.zeros(0, dtype=np.int64)
    for step, width in enumerate(ladder):
        waiting = np.concatenate([rest, np.flatnonzero(rung == step)])
        size = batch_tokens // width
        full = len(waiting) // size * size
        found.extend(Bucket(waiting[at : at + size], width, width) for at in range(0, full, size))
        rest = waiting[full:]
    return found or [Bucket(rest, ladder[-1], ladder[-1])]  # a corpus smaller than one batch


def aligned(sources: Lengths, targets: Lengths, batch_tokens: int, align: int) -> list[Bucket]:
    """Buckets for a GPU: widths of sources and of targets are multiples of `align`, which its kernels like, each as narrow
    as its rows allow; neither side has more than `batch_tokens`."""
    wide_sources, wide_targets = (-(-lengths // align) * align for lengths in (sources, targets))
    order = np.lexsort((wide_sources, wide_targets))  # by target width, then by source width; else as it came
    found: list[Bucket] = []
    at = 0
    while at < len(order):
        rows = max(1, batch_tokens // int(wide_targets[order[at]]))
        widest = order[at : at + rows]
        rows = max(1, batch_tokens // int(max(wide_targets[widest].max(), wide_sources[widest].max())))
        members = order[at : at + rows]
        # A rest of one row is dropped: what is compiled for any number of rows from two on would be compiled for it anew.
        if len(members) > 1 or not found:
            found.append(Bucket(members, int(wide_sources[members].max()), int(wide_targets[members].max())))
        at += rows
    return found


def width_ladder(batch_tokens: int, longest: int) -> list[int]:
    """Widths a batch of `equal_products` may have, ascending, up to one that holds `longest`: divisors of `batch_tokens`.

    Raises ValueError where they lie so far apart that padding would waste the batch: 8400, 25200 or 55440 divide well.
    """
    ladder = [width for width in range(4, batch_tokens + 1) if batch_tokens % width == 0]
    enough = next((i for i, width in enumerate(ladder) if width >= longest), None)
    if enough is None or any(b > 1.5 * a for a, b in pairwise([4, *ladder[: enough + 1]])):
        raise ValueError(f"batch_tokens {batch_tokens} has too few divisors up to {longest}: 8400, 25200 or 55440 divide well.")
    return ladder[: enough + 1]
