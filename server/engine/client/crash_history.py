"""CrashHistory: a job that was running when its worker ended runs alone from then on, and is
rejected when two workers ended while it ran alone."""

from __future__ import annotations

from server.engine.ipc.messages import Job

MAX_ENDS_ALONE = 2
_MAX_RECORDS = 1000


class CrashHistory:
    """Counts by fingerprint how many workers ended while a job ran alone; 0 for a job that ran with
    others. Keeps the latest thousand jobs until they are answered."""

    def __init__(self) -> None:
        self._ends_alone: dict[int, int] = {}
        self.clear = self._ends_alone.clear
        """Deletes all records: another model is loaded, or all workers fail."""

    def record(self, key: int, alone: bool) -> None:
        """Records that a worker ended while it ran a job."""
        self._ends_alone[key] = self._ends_alone.pop(key, 0) + alone  # the latest last
        if len(self._ends_alone) > _MAX_RECORDS:
            del self._ends_alone[next(iter(self._ends_alone))]

    def forget(self, job: Job) -> None:
        """Deletes the record of an answered job."""
        if self._ends_alone:
            self._ends_alone.pop(fingerprint(job), None)

    def ends_alone(self, job: Job) -> int | None:
        """Returns how many workers ended while they ran `job` alone (MAX_ENDS_ALONE: it is
        rejected), or None for a job that need not run alone."""
        return self._ends_alone.get(fingerprint(job)) if self._ends_alone else None


def fingerprint(job: Job) -> int:
    """Returns the same number for equal computations, also in processes forked from one."""
    return hash((job.model, job.source, job.options, job.look))
