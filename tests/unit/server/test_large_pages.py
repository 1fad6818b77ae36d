"""Large pages: data stays as it is, and what is not resident takes no memory."""

from __future__ import annotations

import mmap
from pathlib import Path

from server.process import LARGE_PAGE, use_large_pages

SIZE = 8 * LARGE_PAGE


def kilobytes(name: str) -> int:
    rollup = Path("/proc/self/smaps_rollup")
    lines = rollup.read_text(encoding="ascii").splitlines() if rollup.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def test_data_is_moved_unchanged_and_memory_that_is_not_resident_stays_so():
    full, sparse = (mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(2))
    content = bytes(range(256)) * (SIZE // 256)
    full[:] = content
    for at in range(0, SIZE, LARGE_PAGE):
        sparse[at] = 1
    resident, large = kilobytes("Rss"), kilobytes("AnonHugePages")
    moved = use_large_pages()
    assert full[:] == content
    assert sum(sparse[at] for at in range(0, SIZE, LARGE_PAGE)) == SIZE // LARGE_PAGE
    assert sparse[1:LARGE_PAGE] == bytes(LARGE_PAGE - 1)
    assert 1024 * (kilobytes("Rss") - resident) < moved / 7 + LARGE_PAGE
    assert moved >= 1024 * (kilobytes("AnonHugePages") - large)
    assert use_large_pages() >= 0  # a second time
