"""Random lexical shortlists in Marian's binary format."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Sequence

MAGIC = 0xF11A48D5013417F5


def binary_shortlist(lists: Sequence[Sequence[int]], first: int, magic: int = MAGIC) -> bytes:
    """Returns a file with the targets of each source token, besides the `first` tokens that every
    source allows."""
    flat = [target for targets in lists for target in targets]
    offsets = [0, *itertools.accumulate(map(len, lists))]
    header = struct.pack(
        "<6Q", magic, 0, first, max(map(len, lists), default=0), len(offsets), len(flat)
    )
    return (
        header + struct.pack(f"<{len(offsets)}Q", *offsets) + struct.pack(f"<{len(flat)}I", *flat)
    )


def random_lists(sources: int, targets: int, best: int, seed: int = 1) -> list[list[int]]:
    """Returns `best` random target tokens for each source token."""
    draw = random.Random(seed)
    return [sorted(draw.sample(range(targets), best)) for _ in range(sources)]
