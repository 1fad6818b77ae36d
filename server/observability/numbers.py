"""The numbers of counters and histograms: in memory, or in a file for each of several processes."""

from __future__ import annotations

import json
import mmap
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import add
from pathlib import Path
from struct import Struct
from typing import TypeAlias

Labels = tuple[str, ...]
Series: TypeAlias = "list[float] | memoryview[float]"
FILE_BYTES = 1 << 19
"""Room for some thousand series; labels have few values."""
HEADER = Struct("=II")
"""Before each series in a file: bytes of its padded key in JSON, and the count of its numbers; 0
after the last one."""


class Numbers:
    """Series of numbers by the name of a metric and its labels. Belongs to one thread.

    A `file` keeps them in mapped memory: an addition is no system call, needs no lock, and is not
    lost when the process is killed. The next process with this file continues with them. `totals`
    adds up all files of the folder. Raises OSError where the disk has no room for the file.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._series: dict[tuple[str, Labels], Series] = {}
        self._file, self._end = file, 0
        if file is not None:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            os.posix_fallocate(descriptor, 0, FILE_BYTES)  # a full disk is an error now, not later
            self._memory = memoryview(mmap.mmap(descriptor, FILE_BYTES))
            os.close(descriptor)
            for name, labels, numbers in read(self._memory):
                self._series[name, labels] = numbers
                self._end += HEADER.size + len(key_of(name, labels)) + numbers.nbytes

    def series(self, name: str, labels: Labels, count: int) -> Series:
        """Returns `count` numbers to add to, which begin at 0."""
        found = self._series.get((name, labels))
        if found is None:
            found = self._series[name, labels] = self._new(name, labels, count)
        return found

    def _new(self, name: str, labels: Labels, count: int) -> Series:
        key, begin = key_of(name, labels), self._end + HEADER.size
        numbers = begin + len(key)
        end = numbers + 8 * count
        if self._file is None or end + HEADER.size > FILE_BYTES:
            return [0.0] * count
        self._memory[begin:numbers] = key
        self._memory[self._end : begin] = HEADER.pack(len(key), count)  # last: it is whole now
        self._end = end
        return self._memory[numbers:end].cast("d")

    def totals(self) -> Mapping[str, Mapping[Labels, Sequence[float]]]:
        """Returns the numbers of all processes by name and labels."""
        totals: defaultdict[str, dict[Labels, Sequence[float]]] = defaultdict(dict)
        if self._file is None:
            for (name, labels), numbers in [*self._series.items()]:
                totals[name][labels] = numbers
            return totals
        for file in sorted(self._file.parent.iterdir()):
            for name, labels, added in read(memoryview(file.read_bytes())):
                before = totals[name].get(labels)
                totals[name][labels] = [*map(add, before, added)] if before else added
        return totals


def key_of(name: str, labels: Labels) -> bytes:
    """Returns the padded key of a series in a file."""
    key = json.dumps([name, *labels]).encode()
    return key + b" " * (-len(key) % 8)


def read(memory: memoryview) -> Iterator[tuple[str, Labels, memoryview[float]]]:
    """Yields the name, labels and numbers of each series in a file."""
    place = 0
    while place + HEADER.size <= len(memory):
        size, count = HEADER.unpack_from(memory, place)
        begin = place + HEADER.size
        place = begin + size + 8 * count
        if not count:
            break
        name, *labels = json.loads(bytes(memory[begin : begin + size]))
        yield name, tuple(labels), memory[begin + size : place].cast("d")
