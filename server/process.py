"""Settings of processes: garbage collection, large pages, limits, and cores."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import re
import resource
import time
from pathlib import Path

MORE = 300
"""Thousandths of all memory that this process must use more than its child to be ended first."""
SMALL_PAGE, LARGE_PAGE = 1 << 12, 1 << 21
COLLAPSE = 25
"""MADV_COLLAPSE of Linux 6.1, which moves memory to large pages at once."""
DATA = re.compile(r"^([\da-f]+)-([\da-f]+) rw-p \S+ \S+ 0 ", re.MULTILINE)
"""Begin and end of memory without a file in /proc/self/maps."""
LEAST_RESIDENT = 7 / 8


def end_first(child: int) -> None:
    """Makes Linux end the process `child` before this one where memory is used up: a child is
    restarted and its work repeated, with this process all requests would be lost."""
    with contextlib.suppress(OSError):
        own = int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii"))
        Path(f"/proc/{child}/oom_score_adj").write_text(
            str(min(own + MORE, 1000)), encoding="ascii"
        )


def limit_processor_time(child: int, seconds: int) -> None:
    """Makes Linux end the process `child` with SIGXCPU after `seconds` more of processor time.
    Raises OSError if the process has ended."""
    if hasattr(resource, "prlimit"):
        used = time.clock_gettime((~child << 3) | 2)  # as clock_getcpuclockid(3) numbers clocks
        hard = resource.prlimit(child, resource.RLIMIT_CPU)[1]
        resource.prlimit(child, resource.RLIMIT_CPU, (math.ceil(used) + seconds, hard))


def tune_garbage_collector() -> None:
    """Excludes all current objects from garbage collection, and makes collections rare: with Python's
    default of 700 new objects they examine little but requests in progress, of 200 objects each.
    Call it once, after all imports."""
    gc.collect()
    gc.freeze()
    # Threads wait meanwhile: the first two generations have at most 20,000 objects, and whole
    # collections, which examine all long texts in progress, are rare.
    gc.set_threshold(10_000, 0, 1_000)


def use_large_pages() -> int:
    """Moves the resident data of this process to pages of 2 MB, where Linux can (6.1 and later), and
    returns the bytes that were moved. A request reads about a megabyte from all over the data, and
    looking up pages of 4 kB takes 3 to 10% of its time. Takes tens of milliseconds, in which other
    threads run."""
    moved = 0
    with contextlib.suppress(OSError, AttributeError):  # there is no /proc, or no madvise
        libc = ctypes.CDLL(None)
        for found in DATA.finditer(
            Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        ):
            start, end = -(-int(found[1], 16) // LARGE_PAGE), int(found[2], 16) // LARGE_PAGE
            resident = ctypes.create_string_buffer(LARGE_PAGE // SMALL_PAGE)
            for page in range(start, end):
                place, size = ctypes.c_void_p(page * LARGE_PAGE), ctypes.c_size_t(LARGE_PAGE)
                if libc.mincore(place, size, resident) or resident.raw.count(
                    1
                ) < LEAST_RESIDENT * len(resident):
                    continue
                moved += LARGE_PAGE * (libc.madvise(place, size, COLLAPSE) == 0)
    return moved


def available_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns the number of CPU cores that affinity and the container's CPU quota allow."""
    bound = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        allowed, period = _cpu_quota(cgroup)
    except (OSError, ValueError):  # no cgroup, or "max": no quota
        return bound
    return max(1, min(bound, math.ceil(allowed / period))) if allowed > 0 else bound


def _cpu_quota(cgroup: Path) -> tuple[int, int]:
    """Returns the microseconds of all cores in a period (-1: no quota), and the period. Raises OSError
    without a cgroup, and ValueError for "max"."""
    try:
        texts = (cgroup / "cpu.max").read_text(encoding="ascii").split()
    except FileNotFoundError:  # version 1, as on RHEL 8
        texts = [
            (cgroup / "cpu" / f"cpu.cfs_{name}_us").read_text(encoding="ascii")
            for name in ("quota", "period")
        ]
    allowed, period = map(int, texts)
    return allowed, period
