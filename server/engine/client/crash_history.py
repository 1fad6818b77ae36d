"""Which jobs may have ended workers: such jobs run alone, and are rejected if they end further workers. Pure Python.

A job that was running when its worker ended runs alone from then on. A job that was running alone when two workers
ended is rejected.
"""

from __future__ import annotations

from server.engine.ipc.messages import AttentionJob, TranslateJob

_MAX_ENDS_ALONE = 2
_MAX_RECORDS = 1000

Job = TranslateJob | AttentionJob


class CrashHistory:
    """Counts, for each of the latest thousand jobs that were running when a worker ended, how often it ran alone then.
    Identical jobs share a record. A record is deleted when its job is answered."""

    def __init__(self) -> None:
        self._ends_alone: dict[int, int] = {}

    def record_exit(self, job: Job) -> None:
        """A worker ended while it ran `job`, alone if `job.alone`."""
        key = _fingerprint(job)
        self._ends_alone[key] = self._ends_alone.pop(key, 0) + job.alone  # the latest last
        while len(self._ends_alone) > _MAX_RECORDS:
            del self._ends_alone[next(iter(self._ends_alone))]

    def forget(self, job: Job) -> None:
        """Deletes the record of a job that was answered."""
        if self._ends_alone:
            self._ends_alone.pop(_fingerprint(job), None)

    def clear(self) -> None:
        """Deletes all records: another model is loaded, or the worker fails with any job."""
        self._ends_alone.clear()

    def must_run_alone(self, job: Job) -> bool:
        """Returns whether `job` has to run with nothing beside it."""
        return bool(self._ends_alone) and _fingerprint(job) in self._ends_alone

    def is_rejected(self, job: Job) -> bool:
        """Returns whether `job` is not run any more."""
        return self.ends_alone(job) >= _MAX_ENDS_ALONE

    def ends_alone(self, job: Job) -> int:
        """Returns how many workers ended while they ran `job` alone. Jobs with fewer are sent first, so that kills from
        outside hit different jobs."""
        return self._ends_alone.get(_fingerprint(job), 0) if self._ends_alone else 0


def _fingerprint(job: Job) -> int:
    """Equal for jobs with the same computation."""
    if isinstance(job, TranslateJob):
        return hash((job.model, job.source, job.options))
    return hash((job.model, job.source, job.target, job.masked_heads))
