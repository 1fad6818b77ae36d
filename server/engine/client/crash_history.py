"""Which jobs are suspected of killing workers, and which are convicted. Pure Python.

A job that was running when its worker crashed runs alone from then on; one that ran alone when its worker crashed is
guilty and is not tried again. A kill from outside says little about the job that it hit: it takes two to isolate a job,
and three more in a row that hit no other job, while it runs alone, to convict it.
"""

from __future__ import annotations

from dataclasses import dataclass

from server.engine.ipc.messages import AttentionJob, TranslateJob

_ISOLATED = 2
"""Strikes after which a job runs alone: one crash, or two kills from outside."""
_KILLS_IN_A_ROW, _KILLS = 3, 10
"""Kills from outside, of workers that ran nothing but this job, after which it is guilty: in a row, as long as nobody
else was hit, or in all. Somebody who kills workers meets one job after another; a job that is the cause is always met."""
_REMEMBERED = 1000

Job = TranslateJob | AttentionJob


@dataclass(slots=True)
class _Record:
    strikes: int = 0
    kills: int = 0
    row: int = 0
    guilty: bool = False


class Docket:
    """What is held against jobs, by what they compute: whoever sends the same again meets what is known of it.

    Remembers the latest thousand, and nothing of a job once it was answered.
    """

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}
        self._hit: int | None = None
        """Whom the latest kill from outside hit while it ran alone."""

    def strike(self, job: Job, *, outside: bool) -> None:
        """A worker ended while it ran `job`, alone or among others as `job.alone` says. `outside`: it was killed, and
        nothing says that it had used up the memory."""
        key = _fingerprint(job)
        record = self._records.pop(key, None) or _Record()
        self._records[key] = record  # the latest last
        if not job.alone:
            record.strikes += 1 if outside else _ISOLATED
        elif outside:
            record.kills, record.row = record.kills + 1, record.row + 1 if self._hit == key else 1
        record.guilty |= job.alone and (not outside or record.row >= _KILLS_IN_A_ROW or record.kills >= _KILLS)
        if outside:
            self._hit = key if job.alone else None
        while len(self._records) > _REMEMBERED:
            del self._records[next(iter(self._records))]

    def acquit(self, job: Job) -> None:
        """`job` was answered, and its worker lives."""
        if self._records:
            self._records.pop(_fingerprint(job), None)

    def clear(self) -> None:
        """Forget everything: the model is another one, or the worker fails whatever it is given."""
        self._records.clear()

    def guilty(self, job: Job) -> bool:
        """Whether `job` is not to be tried any more."""
        record = self._find(job)
        return record is not None and record.guilty

    def isolated(self, job: Job) -> bool:
        """Whether `job` has to run with nothing beside it."""
        record = self._find(job)
        return record is not None and record.strikes >= _ISOLATED

    def rank(self, job: Job) -> int:
        """Who was hit less often goes first, so that kills from outside do not meet the same job each time."""
        record = self._find(job)
        return 0 if record is None else record.kills

    def _find(self, job: Job) -> _Record | None:
        return self._records.get(_fingerprint(job)) if self._records else None


def _fingerprint(job: Job) -> int:
    """Equal for jobs that ask for the same computation."""
    if isinstance(job, TranslateJob):
        return hash((job.model, job.source, job.options))
    return hash((job.model, job.source, job.target, job.masked_heads))
