"""The interface between the worker's loop and the model runner, and what a loaded model is. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from model.backends.interface import InspectableBackend
from model.model_folder import ModelFolder
from model.search.options import Hypothesis, TraceStep
from server.engine.ipc.messages import (
    AttentionJob,
    AttentionResult,
    FailureKind,
    ModelLoaded,
    TranslateJob,
    WorkerReady,
)
from server.engine.worker.sequence import AttentionRequest, Sequence

EngineName = Literal["native", "eager", "cuda-graphs"]
OpenedBackend: TypeAlias = "tuple[InspectableBackend, EngineName, str | None]"
"""A backend, its name in status pages, and the reason why a faster one is not used."""


@dataclass(slots=True, eq=False)
class LoadedModel:
    """A model that is ready to decode. `reason` says why a faster backend is not used, None where there is none."""

    folder: ModelFolder
    backend: InspectableBackend
    engine: EngineName
    reason: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The end of a load: `loaded` is the runner's own object with `slots` slots, or `answer` has the error. `announce`
    is False where a loaded model only moved to a faster backend."""

    model: str
    loaded: object
    slots: int
    answer: ModelLoaded
    announce: bool = True


@dataclass(frozen=True, slots=True)
class FinishedSequence:
    """A sequence that ended in this step; best hypothesis first."""

    sequence: Sequence
    hypotheses: tuple[Hypothesis, ...]
    trace: tuple[TraceStep, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of one call of `Runner.step`: the number of decode steps, and the sequences that ended."""

    steps: int
    finished: tuple[FinishedSequence, ...]


class Runner(Protocol):
    """Runs models on the device. All methods are called from the worker's loop."""

    def ready(self) -> WorkerReady:
        """Returns the device and how it computes, as sent to the API process."""

    def load(self, model: str, folder: str) -> None:
        """Starts to load a model; `loaded` returns the outcome later."""

    def loading(self) -> bool:
        """Returns whether `loaded` may return something soon."""

    def loaded(self) -> list[LoadOutcome]:
        """Returns the loads that ended since the last call."""

    def attach(self, queue_id: int, outcome: LoadOutcome) -> None:
        """Uses a loaded model for the jobs of a queue."""

    def detach(self, queue_id: int) -> None:
        """Releases the model of a queue, which has no jobs any more."""

    def refusal(self, queue_id: int, job: TranslateJob | AttentionJob) -> str | None:
        """Returns one sentence why the queue's model cannot run this job, None if it can."""

    def prefill(self, queue_id: int, sequences: list[Sequence]) -> None:
        """Encodes the sources of sequences that were admitted."""

    def step(self, queue_id: int, sequences: list[Sequence]) -> StepResult:
        """Advances all running sequences of a queue by one token or a few, and counts their steps."""

    def progress(self, sequence: Sequence) -> tuple[int, ...]:
        """Returns the tokens so far."""

    def release(self, queue_id: int, sequence: Sequence) -> None:
        """Frees the slots of a sequence."""

    def attend(self, request: AttentionRequest) -> AttentionResult:
        """Runs one attention pass."""

    def failure_kind(self, error: Exception) -> FailureKind | None:
        """Returns the kind of failure; None where the device is broken and the process has to be restarted."""
