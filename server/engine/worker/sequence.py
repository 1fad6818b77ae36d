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
    """One look from its arrival to its answer; the fields mean the same as those of Sequence."""

    job: Job
    alone: bool
    running: bool = False
    answered: bool = False

    @property
    def id(self) -> int:
        return self.job.id

    @property
    def length(self) -> int:
        """Source and target tokens."""
        return len(self.job.source) + len(self.job.target)

    def together_with(self, other: AttentionRequest) -> bool:
        """Returns whether one pass can compute both: neither has scores, masked heads or vectors, and both want the same."""
        look, further = self.job.look, other.job.look
        return (
            look is not None
            and further is not None
            and self.job.model == other.job.model
            and self.job.options.first_token == other.job.options.first_token
            and look.choice == further.choice
            and is_plain(self.job)
            and is_plain(other.job)
        )


def is_plain(job: Job) -> bool:
    """Returns whether a look has no masked heads, and asks for neither scores, vectors nor maps of the encoder."""
    look = job.look
    if look is None or job.options.masked_heads or look.vectors_of is not None:
        return False
    return not look.choice.scores and look.choice.encoder == ()


@dataclass(slots=True, eq=False)
class LookGroup:
    """Looks that are computed together. `passes` is set when they have begun; those that are answered leave the group."""

    requests: list[AttentionRequest]
    passes: Iterator[list[AttentionResult] | None] | None = None
