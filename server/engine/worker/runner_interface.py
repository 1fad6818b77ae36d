"""What the worker's loop asks of the owner of the device, and what it gets back. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from model.search.options import Hypothesis, TraceStep
from server.engine.ipc.messages import (
    AttentionJob,
    AttentionResult,
    FailureKind,
    ModelLoaded,
    TranslateJob,
    WorkerReady,
)
from server.engine.worker.sequence import Look, Sequence


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model is in memory as `served`, the runner's own object, with `slots` slots; or `answer` has the error.
    `announce` is False where the same model only moved to a faster engine."""

    model: str
    served: object
    slots: int
    answer: ModelLoaded
    announce: bool = True


@dataclass(frozen=True, slots=True)
class Finished:
    """A sequence that ended in this step: best hypothesis first."""

    sequence: Sequence
    hypotheses: tuple[Hypothesis, ...]
    trace: tuple[TraceStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Stepped:
    """What one call of `step` did: how many decode steps, how many tokens they wrote, and who ended."""

    steps: int
    tokens: int
    finished: tuple[Finished, ...]


class Runner(Protocol):
    """What the loop asks of the owner of the device. `step` counts each sequence's steps in the sequence."""

    def ready(self) -> WorkerReady: ...
    def load(self, model: str, folder: str) -> None: ...
    def loading(self) -> bool: ...
    def loaded(self) -> list[Loaded]: ...
    def attach(self, lane: int, loaded: Loaded) -> None: ...
    def detach(self, lane: int) -> None: ...
    def refusal(self, lane: int, job: TranslateJob | AttentionJob) -> str | None: ...
    def prefill(self, lane: int, sequences: list[Sequence]) -> None: ...
    def step(self, lane: int, sequences: list[Sequence]) -> Stepped: ...
    def progress(self, sequence: Sequence) -> tuple[int, ...]: ...
    def release(self, lane: int, sequence: Sequence) -> None: ...
    def attend(self, look: Look) -> AttentionResult: ...
    def blame(self, error: Exception) -> FailureKind | None: ...
