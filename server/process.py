"""Settings of the processes of a server: garbage collection, and which process ends first."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path

MORE = 300
"""Thousandths of all memory that this process must use more than its child to be ended in its place."""


def end_first(child: int) -> None:
    """Makes Linux end the process `child` before this one where memory is used up. The child is started again and its
    work is repeated; with this process all requests would be lost. Elsewhere it does nothing."""
    with contextlib.suppress(OSError):
        own = int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii"))
        Path(f"/proc/{child}/oom_score_adj").write_text(str(min(own + MORE, 1000)), encoding="ascii")


def tune_garbage_collector() -> None:
    """Excludes all current objects from garbage collection and makes collections less frequent: a request in progress has 200
    objects, and nearly all that a collection with Python's default of 700 new ones examines are those of such requests. No
    thread runs during a collection, so those of the first two generations examine at most 20,000 objects, and whole ones,
    which examine all long texts in progress, are rare. Call it once, after all imports."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 0, 1_000)
