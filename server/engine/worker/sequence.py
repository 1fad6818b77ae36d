"""Jobs inside the worker: a sentence to translate, and an attention request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model.search.options import Hypothesis, TraceStep
from server.engine.ipc.messages import AttentionResult, Job


@dataclass(slots=True, eq=False)
class Sequence:
    """One sentence from its arrival to its answer. Times are seconds of the worker's monotonic clock.

    `slots` is empty until it runs, `hypotheses` until it has ended. An `alone` sequence runs with nothing beside it.
    `answered` is set when its answer was sent.
    """

    job: Job
    arrived: float
    alone: bool
    slots: tuple[int, ...] = ()
    running: bool = False
    answered: bool = False
    admitted: float = 0.0
    encoded: float = 0.0
    first_token: float = 0.0  # 0: no token yet
    steps: int = 0
    hypotheses: tuple[Hypothesis, ...] = ()
    trace: tuple[TraceStep, ...] = ()

    @property
    def id(self) -> int:
        return self.job.id

    @property
    def document(self) -> bool:
        """Whether it has the low priority of documents."""
        return self.job.priority > 0

    @property
    def width(self) -> int:
        """Slots it takes: one per beam; one for a given target that is only scored."""
        return 1 if self.job.options.target is not None else self.job.options.beam_size

    @property
    def length(self) -> int:
        """Source tokens."""
        return len(self.job.source)

    def reset(self) -> None:
        """Discards what was decoded: the sequence starts again from its source."""
        self.slots, self.steps, self.first_token = (), 0, 0.0


@dataclass(slots=True, eq=False)
class AttentionRequest:
    """One attention job from its arrival to its answer; the fields mean the same as those of Sequence. `passes` is set when
    it has begun."""

    job: Job
    alone: bool
    running: bool = False
    answered: bool = False
    passes: Iterator[AttentionResult | None] | None = None

    @property
    def id(self) -> int:
        return self.job.id
