"""Jobs inside the worker, from their arrival to their answer, and the kinds that share the
device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from model.analysis.types import MapChoice
from model.search.options import Hypothesis, TraceStep
from server.engine.ipc.messages import Job, JobResult


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """How jobs of one kind share the device. `weight` is relative to the other kind of short
    requests, or of documents. `longest` bounds the seconds of a turn beside others. A `look` takes
    no slots."""

    document: bool
    look: bool
    weight: float
    longest: float


SHORT = Kind(document=False, look=False, weight=3.0, longest=0.05)
LOOK = Kind(document=False, look=True, weight=1.0, longest=0.01)
DOCUMENT = Kind(document=True, look=False, weight=3.0, longest=0.003)
DOCUMENT_LOOK = Kind(document=True, look=True, weight=1.0, longest=0.003)
KINDS = (SHORT, LOOK, DOCUMENT, DOCUMENT_LOOK)
Flow = tuple[Kind, str]
"""The jobs of one kind of one client are a flow."""


@dataclass(slots=True, eq=False)
class Sequence:
    """One job. Times are seconds on the worker's monotonic clock; `seconds` of the device were
    charged for it.

    `passes` are shared by the looks of one pass that has begun. Of its given target or prefix the
    next step may read `room` tokens, and the last step has read `read`. `hypotheses` are empty
    until it has ended. An `alone` sequence runs with nothing beside it; `finite` is False where the
    model's numbers overflowed.
    """

    job: Job
    arrived: float = 0.0
    alone: bool = False
    kind: Kind = field(default=SHORT, init=False)
    # rows of the batch: one per beam; one for a given target
    width: int = field(default=1, init=False)
    length: int = field(default=0, init=False)  # source tokens; of a look source and target tokens
    slots: tuple[int, ...] = ()
    passes: Iterator[list[JobResult] | None] | None = None
    admitted: float = 0.0  # 0: nothing has run
    encoded: float = 0.0
    first_token: float = 0.0  # 0: no token yet
    steps: int = 0
    room: int = 1
    read: int = 1
    seconds: float = 0.0
    finite: bool = True
    hypotheses: tuple[Hypothesis, ...] = ()
    trace: tuple[TraceStep, ...] = ()

    def __post_init__(self) -> None:
        job, target = self.job, self.job.options.target
        self.kind = KINDS[2 * (job.priority > 0) + (job.look is not None)]
        self.width = job.options.beam_size if target is None else 1
        self.length = len(job.source) + (len(job.target) if self.kind.look else 0)

    @property
    def id(self) -> int:
        return self.job.id

    @property
    def known(self) -> int:
        """Tokens of its given target or prefix that are not read yet."""
        return len(self.job.options.target or self.job.options.prefix) - self.steps

    @property
    def flow(self) -> Flow:
        return self.kind, self.job.client


def shared_pass(job: Job) -> tuple[str, int | None, MapChoice] | None:
    """Returns what looks must have in common to share a pass; None for a job that has a pass alone:
    with masked heads, or for scores, vectors, tensors or maps of the encoder."""
    look, options = job.look, job.options
    if look is None or options.masked_heads or look.vectors_of is not None:
        return None
    choice = look.choice
    if choice.scores or choice.encoder != () or choice.followed is not None:
        return None
    return job.model, options.first_token, choice
