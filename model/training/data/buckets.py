"""Grouping of examples into batches by length, so that batches have little padding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Indices of the examples of one batch, and the widths to which their sources and targets are padded."""

    members: NDArray[np.int64]
    source_width: int
    target_width: int


def equal_products(sources: Lengths, targets: Lengths, batch_tokens: int, longest: int) -> list[Bucket]:
    """Returns buckets for a CPU. Sources and targets have one width, a divisor of `batch_tokens`.

    Every bucket has exactly `batch_tokens` padded tokens, so all matrix products over tokens have one shape, and kernels
    that are generated for a shape are generated once. Examples that do not fill a bucket of their width move to the next
    width; those left at the largest width are dropped.
    """
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
    """Returns buckets for a GPU, whose kernels are faster for widths that are multiples of `align`.

    Each width is the smallest multiple that fits the bucket's examples. Neither side has more than `batch_tokens`.
    """
    wide_sources, wide_targets = (-(-lengths // align) * align for lengths in (sources, targets))
    order = np.lexsort((wide_sources, wide_targets))  # stable: by target width, then by source width
    found: list[Bucket] = []
    at = 0
    while at < len(order):
        rows = max(1, batch_tokens // int(wide_targets[order[at]]))
        widest = order[at : at + rows]
        rows = max(1, batch_tokens // int(max(wide_targets[widest].max(), wide_sources[widest].max())))
        members = order[at : at + rows]
        # A single left-over example is dropped: layers compiled for two or more rows would be compiled again for one.
        if len(members) > 1 or not found:
            found.append(Bucket(members, int(wide_sources[members].max()), int(wide_targets[members].max())))
        at += rows
    return found


def width_ladder(batch_tokens: int, longest: int) -> list[int]:
    """Returns the widths for `equal_products`: the divisors of `batch_tokens`, ascending, up to the first of at least `longest`.

    Raises ValueError if they lie so far apart that padding would waste much of a batch.
    """
    ladder = [width for width in range(4, batch_tokens + 1) if batch_tokens % width == 0]
    enough = next((i for i, width in enumerate(ladder) if width >= longest), None)
    if enough is None or any(b > 1.5 * a for a, b in pairwise([4, *ladder[: enough + 1]])):
        raise ValueError(
            f"batch_tokens {batch_tokens} has too few divisors up to {longest}: 8400, 25200 or 55440 divide well."
        )
    return ladder[: enough + 1]


def balanced(
    order: NDArray[np.int64], sizes: Lengths, ranks: int, random: np.random.Generator, window: int = 8
) -> NDArray[np.int64]:
    """Returns `order` with batches exchanged so that the `ranks` batches of a step have similar `sizes`.

    Ranks wait for each other after every step. Batches move within `window` steps, and these steps stay in random order.
    """
    found = []
    for at in range(0, len(order), ranks * window):
        part = order[at : at + ranks * window]
        part = part[np.argsort(sizes[part], kind="stable")]
        whole = len(part) // ranks * ranks
        found.append(random.permutation(part[:whole].reshape(-1, ranks)).reshape(-1))
        found.append(part[whole:])
    return np.concatenate(found)
