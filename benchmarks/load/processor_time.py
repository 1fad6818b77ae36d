"""Processor time of a server on this machine: of the process that listens on a port and of its child processes.

Linux only: it reads /proc.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PROC = Path("/proc")
_LISTEN = "0A"
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor time since the start: of the listening process and of its running child processes."""

    front: float
    workers: float

    def __sub__(self, before: Self) -> Spent:
        return Spent(self.front - before.front, self.workers - before.workers)

    def __add__(self, other: Self) -> Spent:
        return Spent(self.front + other.front, self.workers + other.workers)

    @property
    def share(self) -> float:
        """Share of the listening process; 0 if no time was used."""
        total = self.front + self.workers
        return self.front / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Server:
    """Process ids of a server; `front` is the listening process."""

    front: int
    workers: tuple[int, ...]

    @classmethod
    def find(cls, port: int) -> Self:
        """Finds the process that listens on a TCP port of this machine. Raises ValueError if there is none or it is not
        readable."""
        sockets = {f"socket:[{inode}]" for inode in _listening(port)}
        for process in _processes():
            if sockets & _open_files(process):
                return cls(process, tuple(descendants(process)))
        raise ValueError(f"No readable process of this machine listens on port {port}.")

    def spent(self) -> Spent:
        """Returns the processor time used so far."""
        return Spent(seconds_of(self.front), sum(seconds_of(worker) for worker in self.workers))


def _listening(port: int) -> set[str]:
    """Returns the inodes of the sockets that listen on a port."""
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in (_PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _processes() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _open_files(process: int) -> set[str]:
    """Returns the targets of the file descriptors of a process; an empty set without permission."""
    found: set[str] = set()
    try:
        for descriptor in (_PROC / str(process) / "fd").iterdir():
            found.add(str(descriptor.readlink()))
    except OSError:  # a process of another user, or one that has just ended
        return found
    return found


def descendants(process: int) -> list[int]:
    """Returns the process ids of all processes below a process."""
    parents = {child: int(fields[1]) for child in _processes() if (fields := _stat(child))}
    found = [process]
    for parent in found:
        found += [child for child, its in parents.items() if its == parent]
    return found[1:]


def seconds_of(process: int) -> float:
    """Returns user plus system time of all threads of a process, including ended ones; 0 if the process has ended."""
    fields = _stat(process)
    return (int(fields[11]) + int(fields[12])) / _TICK if fields else 0.0


def _stat(process: int) -> list[str]:
    """Returns the fields of /proc/PID/stat from the state on: [0] state, [1] parent, [11] user and [12] system
    ticks."""
    try:
        text = (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
