"""Grouping of examples into batches by length, so that batches have little padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Indices of the examples of one batch, and the widths to which their sources and targets are padded."""

    members: NDArray[np.int64]
    source_width: int
    target_width: int


def aligned(sources: Lengths, targets: Lengths, batch_tokens: int, align: int) -> list[Bucket]:
    """Returns buckets whose widths are multiples of `align`, the smallest that fit the bucket's examples.

    Few different shapes occur, and kernels of GPUs are faster for multiples of 8. Neither side has more than
    `batch_tokens`.
    """
    wide_sources, wide_targets = (-(-lengths // align) * align for lengths in (sources, targets))
    order = np.lexsort((wide_sources, wide_targets))  # stable: by target width, then by source width
    buckets: list[Bucket] = []
    at = 0
    while at < len(order):
        rows = max(1, batch_tokens // int(wide_targets[order[at]]))
        widest = order[at : at + rows]
        rows = max(1, batch_tokens // int(max(wide_targets[widest].max(), wide_sources[widest].max())))
        members = order[at : at + rows]
        # A single left-over example is dropped: layers compiled for two or more rows would be compiled again for one.
        if len(members) > 1 or not buckets:
            buckets.append(Bucket(members, int(wide_sources[members].max()), int(wide_targets[members].max())))
        at += rows
    return buckets
