"""Messages between the API process and a worker: pickled dataclasses with token ids, no text.

    API -> worker: LoadModel, UnloadModel, Job, Cancel
    worker -> API: WorkerReady, ModelLoaded, Started, Progress, JobResult, Failed, StepStats

Every job is answered by exactly one of JobResult and Failed. Times are in seconds; every interval
is measured with one monotonic clock in one process. No message is changed after it is sent.
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
    """Load a model folder under the name `model`. Jobs that were accepted before finish on the old
    model. `ends` is how many processes ended while they loaded it: a GPU skips as many of its ways
    to decode, fastest first."""

    model: str
    folder: str
    ends: int = 0


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Unload a model after its last job. A worker passes it on to its other API processes."""

    model: str


@dataclass(frozen=True, slots=True)
class Look:
    """What a job returns of the forced pass over its target (`DecodingOptions.target`, without
    start and end of sentence)."""

    choice: MapChoice = EVERYTHING
    vectors_of: Head | None = None
    """The head whose queries, keys and values are also returned."""
    words: PairWords | None = None
    """The words of source and target that are to be linked. The choice has a soft alignment
    then."""
    maps: bool = True
    """Whether the maps are returned."""


class Charged(NamedTuple):
    """Priority, client and weight of a job, as in Job."""

    priority: int = 0
    client: str = ""
    weight: float = 1.0


@dataclass(slots=True)
class Job:
    """One question to a model about one sentence: to translate it, to score a target, or to look at
    the forced pass over one. `source` has all ids that the encoder reads, with language tag and end
    of sentence. A job has its id when it is sent."""

    id: int
    model: str
    source: tuple[int, ...]
    options: DecodingOptions
    priority: int = 0
    """0 for short requests, 1 for documents. A look has that of its text."""
    client: str = ""
    """Opaque name of the client, for fairness between clients."""
    weight: float = 1.0
    """Factor of the client's share; positive."""
    stream: bool = False
    """Send Progress messages."""
    alone: bool = False
    """Run alone: the job was running when a worker ended and may be the cause."""
    look: Look | None = None

    @property
    def target(self) -> tuple[int, ...]:
        """The given target; empty for a translation."""
        return self.options.target or ()


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a job, which is answered by Failed of the kind "cancelled"."""

    id: int


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The worker takes jobs. Sent again whenever a field changes."""

    device: str
    dtype: str
    engine: str
    """The decode path: "eager", "native" or "cuda-graphs"; `details` say why it is no faster
    one."""
    details: dict[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    """The UUIDs of the GPUs that can be used, if there are several and the worker is not pinned to
    one."""

    @property
    def computation(self) -> tuple[str, ...]:
        """Kind of device, number format and decode path, on which translations may depend."""
        return (self.device.partition(":")[0], self.dtype, self.engine)


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """The answer to LoadModel."""

    model: str
    seconds: float = 0.0
    error: str | None = None
    """One sentence if the folder could not be loaded; an old model of this name is still
    served."""
    bytes: int = 0
    """Memory of a GPU for weights and cache; 0 on a CPU."""
    shortlist: str = ""
    """Digest of the shortlist that limits its targets, or empty."""


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
        """Seconds from arrival to the end."""
        return self.queue + self.encode + self.decode

    def then(self, after: Timings) -> Timings:
        """Returns the timings of two sequences that ran one after the other."""
        queue, encode = self.queue + after.queue, self.encode + after.encode
        return Timings(queue, encode, self.decode + after.decode, self.first_token)


NO_TIMINGS = Timings(0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class Started:
    """These jobs run from now on. If the worker ends before it answers them, they may be the
    cause."""

    ids: tuple[int, ...]


@dataclass(slots=True)
class Progress:
    """The tokens of a greedy search so far, for streaming."""

    id: int
    tokens: tuple[int, ...]


@dataclass(slots=True)
class JobResult:
    """The answer to a job: hypotheses, best first, or what its look asks for, in NumPy arrays."""

    id: int
    hypotheses: tuple[Hypothesis, ...] = ()
    timings: Timings = NO_TIMINGS
    steps: int = 0
    trace: tuple[TraceStep, ...] = ()
    looked: AttentionMaps | None = None
    links: tuple[WordLink, ...] = ()
    """Of a look with `words`."""
    options: DecodingOptions | None = None
    """How it was decoded; added by the client."""

    @property
    def maps(self) -> AttentionMaps:
        """The maps of a look. Raises TypeError for other jobs."""
        if self.looked is None:
            raise TypeError("Only the answer to a look has maps.")
        return self.looked


@dataclass(slots=True)
class Failed:
    """The answer to a job that failed."""

    id: int
    kind: FailureKind
    message: str
    """One sentence for the caller."""


@dataclass(slots=True)
class StepStats:
    """The work since the last StepStats, for the metrics.

    `running` and `waiting` are the present sequences, `slots_used` and `slots_total` the present
    slots; `token_seconds` and `look_seconds` are the seconds of the device for a token of a row and
    of a look lately. The other fields are sums, and `steps` has the rows and seconds of each decode
    step.
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
