"""Messages between the API process and a worker process: plain picklable dataclasses, token ids only, no torch.

    API -> worker: LoadModel, UnloadModel, TranslateJob, AttentionJob, Cancel, Drain
    worker -> API: WorkerReady, ModelLoaded, ModelUnloaded, Started, Progress, TranslationResult, AttentionResult, Failed,
                   StepStats, Drained

Every job is answered by exactly one of TranslationResult, AttentionResult, Failed. Times are in seconds; every interval
is measured with one monotonic clock in one process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from model.analysis.pair_alignment import WordedSentence, WordEvidence
from model.analysis.types import AttentionMaps
from model.search.options import DecodingOptions, Hypothesis, TraceStep

FailureKind = Literal[
    "invalid", "cancelled", "unknown_model", "unavailable", "overloaded", "out_of_memory", "poison", "internal"
]


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load (or replace) the model folder `folder` under the name `model`; who runs on the old one finishes on it."""

    model: str
    folder: str


@dataclass(frozen=True, slots=True)
class UnloadModel:
    model: str


@dataclass(frozen=True, slots=True)
class TranslateJob:
    """One sentence. `source` holds the ids as the encoder reads them (language tag and end of sentence included)."""

    id: int
    model: str
    source: tuple[int, ...]
    options: DecodingOptions
    priority: int = 0
    """0 interactive, 1 document: documents go in the gaps."""
    client: str = ""
    """Opaque key of the caller, for fairness between callers."""
    stream: bool = False
    """Ask for Progress messages as tokens come."""
    alone: bool = False
    """Run with nothing beside it: the job was running when a worker died and may be the cause."""


@dataclass(frozen=True, slots=True)
class AttentionJob:
    """One teacher-forced pass. `target` is without start and end of sentence; the pass adds the start before it."""

    id: int
    model: str
    source: tuple[int, ...]
    target: tuple[int, ...]
    masked_heads: tuple[tuple[str, int, int], ...] = ()
    alone: bool = False
    vectors_of: tuple[str, int, int] | None = None
    """Also answer with the queries, keys and values of this head."""
    words: tuple[WordedSentence, WordedSentence] | None = None
    """Also answer how well the words of these two fit: source and target, each as the encoder reads it."""


@dataclass(frozen=True, slots=True)
class Cancel:
    id: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Finish what was accepted, answer it, then Drained and exit 0."""


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The worker takes messages. Sent again whenever a field changes, as when a faster engine takes over."""

    device: str
    dtype: str
    engine: str
    """Which decode path runs: "eager", "native", "cuda-graphs"; with the reason when a faster one is absent."""
    details: dict[str, str] = field(default_factory=dict)
    device_count: int = 1
    """How many devices of this kind the machine has."""


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    model: str
    parameters: int
    bytes: int
    seconds: float
    error: str | None = None
    """One sentence when the folder could not be loaded; the old model under this name, if any, still serves."""


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    model: str


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds one sequence spent waiting for a slot, in prefill, in decode steps, and from arrival to first token."""

    queue: float
    encode: float
    decode: float
    first_token: float


@dataclass(frozen=True, slots=True)
class Started:
    """These jobs touch the device from now on: should the worker die before it answers them, they are the suspects."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Tokens of the best (greedy) hypothesis so far, for streaming."""

    id: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TranslationResult:
    id: int
    hypotheses: tuple[Hypothesis, ...]
    """Best first."""
    timings: Timings
    steps: int
    trace: tuple[TraceStep, ...] = ()


@dataclass(frozen=True, slots=True)
class AttentionResult:
    """The answer to an AttentionJob. Arrays are sent as NumPy arrays. `evidence` is set where the job has `words`."""

    id: int
    maps: AttentionMaps
    evidence: WordEvidence | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    id: int
    kind: FailureKind
    message: str
    """One sentence that may be shown to the caller."""


@dataclass(frozen=True, slots=True)
class StepStats:
    """What the worker did since the StepStats before; the API side turns it into metrics.

    `running`, `waiting`, `slots_used` and `slots_total` are as of now (sequences, slots); everything else is a sum over
    the steps since. `steps` has each decode step's rows and seconds. Nothing is left out: sums add up exactly.
    """

    running: int
    waiting: int
    slots_used: int
    slots_total: int
    decode_rows: int
    decode_seconds: float
    prefill_sequences: int
    prefill_tokens: int
    prefill_padded_tokens: int
    prefill_seconds: float
    generated_tokens: int
    steps: tuple[tuple[int, float], ...] = ()
    attention_jobs: int = 0
    attention_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Drained:
    pass


ToWorker = LoadModel | UnloadModel | TranslateJob | AttentionJob | Cancel | Drain
Answer = TranslationResult | AttentionResult | Failed
FromWorker = WorkerReady | ModelLoaded | ModelUnloaded | Started | Progress | Answer | StepStats | Drained
