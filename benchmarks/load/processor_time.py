"""Processor time of a server on this machine: of the process that listens on a port and of its
child processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import psutil


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor time since the start: of the listening process and of its running child
    processes."""

    front: float
    workers: float

    def __sub__(self, before: Self) -> Spent:
        return Spent(self.front - before.front, self.workers - before.workers)

    def __add__(self, other: Self) -> Spent:
        return Spent(self.front + other.front, self.workers + other.workers)


@dataclass(frozen=True, slots=True)
class Server:
    """The processes of a server; `front` listens."""

    front: psutil.Process
    workers: tuple[psutil.Process, ...]

    @classmethod
    def find(cls, port: int) -> Self:
        """Finds the process that listens on a TCP port of this machine. Raises ValueError if there
        is none or it is not readable."""
        for connection in psutil.net_connections("tcp"):
            if (
                connection.status == psutil.CONN_LISTEN
                and connection.laddr[1:2] == (port,)
                and connection.pid
            ):
                front = psutil.Process(connection.pid)
                return cls(front, tuple(front.children(recursive=True)))
        raise ValueError(f"No readable process of this machine listens on port {port}.")

    def spent(self) -> Spent:
        """Returns the processor time used so far."""
        return Spent(_seconds([self.front]), _seconds(self.workers))


def _seconds(processes: Sequence[psutil.Process]) -> float:
    """Returns user and system time of all threads of the processes that still run."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
