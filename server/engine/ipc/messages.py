"""Messages between the API process and a worker: plain dataclasses that are pickled, with token
ids, no text. No torch.

    API -> worker: LoadModel, UnloadModel, Job, Cancel
    worker -> API: WorkerReady, ModelLoaded, Started, Progress, JobResult, Failed, StepStats

Every job is answered by exactly one of JobResult, Failed. Times are in seconds; every interval is
measured with one monotonic clock in one process. No message is changed after it is sent, and a job
has its id from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from model.analysis.pair_alignment import PairWords, WordLink
from model.analysis.types import EVERYTHING, AttentionMaps, Head, MapChoice
from model.search.options import DecodingOptions, Hypothesis, TraceStep

FailureKind = Literal[
    "invalid",
    "gone",
    "cancelled",
    "unknown_model",
    "unavailable",
    "out_of_memory",
    "poison",
    "internal",
]


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load the model folder `folder` under the name `model`. Jobs that were accepted before finish
    on the old model. `ends` is how many processes ended while they loaded it: a GPU skips as many
    of its ways to decode, fastest first."""

    model: str
    folder: str
    ends: int = 0


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Unload a model after its last job. A worker that several API processes use tells them so."""

    model: str


@dataclass(frozen=True, slots=True)
class Look:
    """What a job wants to see of the forced pass over its target (`DecodingOptions.target`, without
    start and end of sentence)."""

    choice: MapChoice = EVERYTHING
    vectors_of: Head | None = None
    """The head whose queries, keys and values are also returned."""
    words: PairWords | None = None
    """The words of source and target, whose links are wanted. The choice has a soft alignment
    then."""
    maps: bool = True
    """Whether the maps are returned."""


class Charged(NamedTuple):
    """Whom the work of a job is charged to, as the fields of a Job."""

    priority: int = 0
    client: str = ""
    weight: float = 1.0


@dataclass(slots=True)
class Job:
    """One question to a model about one sentence: to translate it, to score a target, or to look at
    the pass over one. `source` holds the ids as the encoder reads them (language tag and end of
    sentence included)."""

    id: int
    model: str
    source: tuple[int, ...]
    options: DecodingOptions
    priority: int = 0
    """0 interactive, 1 document: documents run when no interactive job waits. A look has the one of
    its text."""
    client: str = ""
    """Opaque key of the client, for fairness between clients."""
    weight: float = 1.0
    """Factor of the client's share; positive."""
    stream: bool = False
    """Send Progress messages as tokens are generated."""
    alone: bool = False
    """Run alone: the job was running when a worker ended and may be the cause."""
    look: Look | None = None
    """The job is a look; its answer has maps."""

    @property
    def target(self) -> tuple[int, ...]:
        """The target of a look or of a job that only scores."""
        return self.options.target or ()


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a job; it is answered by Failed with kind "cancelled"."""

    id: int


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The worker takes jobs. Sent again whenever a field changes, as when a model moves to a faster
    backend."""

    device: str
    dtype: str
    engine: str
    """The decode path: "eager", "native" or "cuda-graphs"; `details` has the reason why a faster
    one is not used."""
    details: dict[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    """The UUIDs of the GPUs that can be used, where there are several. A worker that is pinned to
    one lists none."""

    @property
    def computation(self) -> tuple[str, ...]:
        """The kind of device, number format and decode path, on which translations may depend."""
        return (self.device.partition(":")[0], self.dtype, self.engine)


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """The answer to LoadModel."""

    model: str
    seconds: float = 0.0
    error: str | None = None
    """One sentence where the folder could not be loaded; an old model of this name is still
    served."""
    bytes: int = 0
    """Memory of a GPU that it takes, weights and cache; 0 on a CPU."""
    shortlist: str = ""
    """The digest of the shortlist that limits its targets; "" if none does."""


@dataclass(slots=True, unsafe_hash=True)
class Timings:
    """Seconds of one sequence: waiting for a slot, in prefill, in decode steps, and from arrival to
    the first token."""

    queue: float
    encode: float
    decode: float
    first_token: float

    @property
    def seconds(self) -> float:
        """The seconds until the end."""
        return self.queue + self.encode + self.decode

    def then(self, after: Timings) -> Timings:
        """Returns the timings of two sequences one after the other."""
        queue, encode = self.queue + after.queue, self.encode + after.encode
        return Timings(queue, encode, self.decode + after.decode, self.first_token)


NO_TIMINGS = Timings(0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class Started:
    """These jobs run on the device from now on. If the worker ends before it answers them, they may
    be the cause."""

    ids: tuple[int, ...]


@dataclass(slots=True)
class Progress:
    """The tokens of a greedy search so far, for streaming."""

    id: int
    tokens: tuple[int, ...]


@dataclass(slots=True)
class JobResult:
    """The answer to a job: hypotheses, best first, or what its look asked for. Arrays are sent as
    NumPy arrays."""

    id: int
    hypotheses: tuple[Hypothesis, ...] = ()
    timings: Timings = NO_TIMINGS
    steps: int = 0
    trace: tuple[TraceStep, ...] = ()
    looked: AttentionMaps | None = None
    links: tuple[WordLink, ...] = ()
    """Those of a look with `words`."""
    options: DecodingOptions | None = None
    """How it was decoded. The worker leaves it out, and the client adds it."""

    @property
    def maps(self) -> AttentionMaps:
        """The maps of a look. Raises TypeError for another job."""
        if self.looked is None:
            raise TypeError("Only the answer to a look has maps.")
        return self.looked


@dataclass(slots=True)
class Failed:
    """The answer to a job that could not be done."""

    id: int
    kind: FailureKind
    message: str
    """One sentence that may be shown to the caller."""


@dataclass(slots=True)
class StepStats:
    """The work since the StepStats before, for the metrics. The worker adds to it until it is sent.

    `running`, `waiting`, `slots_used` and `slots_total` are the present state (sequences, slots),
    `token_seconds` and `look_seconds` what a token of a row and one of a look took lately, on the
    device and in all; the other fields are sums since then. `steps` has the rows and seconds of
    each decode step. Every step is counted exactly once.
    """

    running: int = 0
    waiting: int = 0
    slots_used: int = 0
    slots_total: int = 0
    token_seconds: float = 0.0
    look_seconds: float = 0.0
    prefill_sequences: int = 0
    prefill_tokens: int = 0
    prefill_padded_tokens: int = 0
    steps: list[tuple[int, float]] = field(default_factory=list)


ToWorker = LoadModel | UnloadModel | Job | Cancel
Answer = JobResult | Failed
FromWorker = WorkerReady | ModelLoaded | UnloadModel | Started | Progress | Answer | StepStats
