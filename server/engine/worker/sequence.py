"""A job inside the worker: what was asked, when it came, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from server.engine.ipc.messages import AttentionJob, TranslateJob


@dataclass(slots=True, eq=False)
class Sequence:
    """One sentence on its way. Times are the worker's monotonic clock in seconds; `slots` is empty until it runs.
    `lane` is the number of the lane it waits or runs in; `alone` asks for a turn with nothing beside it; `gone` is an
    answered one."""

    job: TranslateJob
    arrived: float
    deadline: float | None
    lane: int
    alone: bool
    slots: tuple[int, ...] = ()
    running: bool = False
    gone: bool = False
    admitted: float = 0.0
    encoded: float = 0.0
    first_token: float = 0.0  # 0: none yet
    steps: int = 0

    @property
    def id(self) -> int:
        return self.job.id

    @property
    def width(self) -> int:
        """Slots it takes: one per beam; a given target that is only scored takes one."""
        return 1 if self.job.options.target is not None else self.job.options.beam_size

    @property
    def length(self) -> int:
        """Source tokens."""
        return len(self.job.source)


@dataclass(slots=True, eq=False)
class Look:
    """One attention job on its way; the fields are those of Sequence."""

    job: AttentionJob
    arrived: float
    deadline: float | None
    lane: int
    alone: bool
    running: bool = False
    gone: bool = False

    @property
    def id(self) -> int:
        return self.job.id
