"""Which process Linux ends where the memory of the machine or of the container is used up."""

from __future__ import annotations

import contextlib
from pathlib import Path

MORE = 300
"""Thousandths of all memory that this process must use more than its child to be ended in its place."""


def end_first(child: int) -> None:
    """Makes Linux end the process `child` before this one. The child is started again and its work is repeated; with
    this process all requests would be lost. Elsewhere it does nothing."""
    with contextlib.suppress(OSError):
        own = int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii"))
        Path(f"/proc/{child}/oom_score_adj").write_text(str(min(own + MORE, 1000)), encoding="ascii")
