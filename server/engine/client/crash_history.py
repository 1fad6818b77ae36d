"""Which jobs may have crashed workers: such jobs run alone, and are rejected if they crash a worker again. Pure Python.

A job that was running when its worker crashed runs alone from then on. A job that was running alone when its worker
crashed is rejected. A SIGKILL from outside is weak evidence: two of them isolate a job, and three in a row that hit no
other isolated job, while it runs alone, reject it.
"""

from __future__ import annotations

from dataclasses import dataclass

from server.engine.ipc.messages import AttentionJob, TranslateJob

_ISOLATED = 2
"""Suspicion at which a job runs alone: one crash, or two external kills."""
_KILLS_IN_A_ROW, _KILLS = 3, 10
"""External kills of workers that ran only this job, after which it is rejected: in a row without one that hit another
isolated job, or in all. Random kills hit different jobs; a job that causes them is hit every time."""
_MAX_RECORDS = 1000

Job = TranslateJob | AttentionJob


@dataclass(slots=True)
class _Record:
    suspicion: int = 0
    kills: int = 0
    kills_in_a_row: int = 0
    rejected: bool = False


class CrashHistory:
    """Keeps a record of the latest thousand jobs that were running when a worker ended. Identical jobs share a record.
    A record is deleted when its job is answered."""

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}
        self._last_killed: int | None = None
        """The job that ran alone at the latest external kill."""

    def record_exit(self, job: Job, *, external: bool) -> None:
        """A worker ended while it ran `job`, alone if `job.alone`. `external`: it was killed by SIGKILL, and not
        because memory ran out."""
        key = _fingerprint(job)
        record = self._records.pop(key, None) or _Record()
        self._records[key] = record  # the latest last
        if not job.alone:
            record.suspicion += 1 if external else _ISOLATED
        elif external:
            record.kills += 1
            record.kills_in_a_row = record.kills_in_a_row + 1 if self._last_killed == key else 1
        record.rejected |= job.alone and (
            not external or record.kills_in_a_row >= _KILLS_IN_A_ROW or record.kills >= _KILLS
        )
        if external:
            self._last_killed = key if job.alone else None
        while len(self._records) > _MAX_RECORDS:
            del self._records[next(iter(self._records))]

    def forget(self, job: Job) -> None:
        """Deletes the record of a job that was answered."""
        if self._records:
            self._records.pop(_fingerprint(job), None)

    def clear(self) -> None:
        """Deletes all records: another model is loaded, or the worker fails with any job."""
        self._records.clear()

    def is_rejected(self, job: Job) -> bool:
        """Returns whether `job` is not run any more."""
        record = self._find(job)
        return record is not None and record.rejected

    def must_run_alone(self, job: Job) -> bool:
        """Returns whether `job` has to run with nothing beside it."""
        record = self._find(job)
        return record is not None and record.suspicion >= _ISOLATED

    def kills(self, job: Job) -> int:
        """Returns the external kills that hit `job` alone. Jobs with fewer are sent first, so that kills hit different
        jobs."""
        record = self._find(job)
        return 0 if record is None else record.kills

    def _find(self, job: Job) -> _Record | None:
        return self._records.get(_fingerprint(job)) if self._records else None


def _fingerprint(job: Job) -> int:
    """Equal for jobs with the same computation."""
    if isinstance(job, TranslateJob):
        return hash((job.model, job.source, job.options))
    return hash((job.model, job.source, job.target, job.masked_heads))
