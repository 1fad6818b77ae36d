"""Which jobs may have ended workers: such jobs run alone, and are rejected if they end further
workers. Pure Python.

A job that was running when its worker ended runs alone from then on. A job that was running alone
when two workers ended is rejected.
"""

from __future__ import annotations

from server.engine.ipc.messages import Job

MAX_ENDS_ALONE = 2
_MAX_RECORDS = 1000


class CrashHistory:
    """Counts, for each of the latest thousand jobs that were running when a worker ended, how often
    it ran alone then. Identical jobs share a record. A record is deleted when its job is
    answered."""

    def __init__(self) -> None:
        self._ends_alone: dict[int, int] = {}
        self.clear = self._ends_alone.clear
        """Deletes all records: another model is loaded, or the worker fails with any job."""

    def record(self, key: int, alone: bool) -> None:
        """A worker ended while it ran the job with this fingerprint, alone or not."""
        self._ends_alone[key] = self._ends_alone.pop(key, 0) + alone  # the latest last
        if len(self._ends_alone) > _MAX_RECORDS:
            del self._ends_alone[next(iter(self._ends_alone))]

    def forget(self, job: Job) -> None:
        """Deletes the record of a job that was answered."""
        if self._ends_alone:
            self._ends_alone.pop(fingerprint(job), None)

    def ends_alone(self, job: Job) -> int | None:
        """Returns how many workers ended while they ran `job` alone: from MAX_ENDS_ALONE on it is
        not run any more. Returns None for a job without a record, which need not run alone."""
        return self._ends_alone.get(fingerprint(job)) if self._ends_alone else None


def fingerprint(job: Job) -> int:
    """Equal for jobs with the same computation, also in processes that were forked from one."""
    return hash((job.model, job.source, job.options, job.look))
