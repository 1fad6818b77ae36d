"""A worker process whose model is arithmetic, with the real loop, scheduler and pipes. Some ids
make it crash or hang."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np

from model.analysis.types import AttentionMaps
from model.search.options import Hypothesis
from server.engine.ipc.messages import (
    Failed,
    FailureKind,
    Job,
    JobResult,
    ModelLoaded,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.device_config import NoDevice
from server.engine.worker.loop import serve
from server.engine.worker.sequence import Sequence

COMMAND = (sys.executable, str(Path(__file__).resolve()))
CRASH, HANG, RAISE, KILL, REFUSED = 90_001, 90_002, 90_003, 90_004, 90_005
SLOTS = 8


def expected(source: tuple[int, ...], shift: int = 1) -> tuple[int, ...]:
    """Returns the translation of `source` by this model."""
    return tuple(token + shift for token in reversed(source))


class FakeRunner:
    """A ModelRunner with one token per step. A folder name says how the model behaves: its shift,
    its step time in ms, or how it fails: "absent", "crash" while it is loaded ("crash-0": the first
    time; "late": after some steps of jobs), "dying" at the first job. There are as many devices as
    threads of the options. "refused" cannot be loaded by the worker of device 1. With the option
    cpu the GPU with the number 2 is lost."""

    def __init__(self, options: WorkerOptions, index: int, pinned: bool = False) -> None:
        lost = options.device == "cpu" and pinned and os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-2"
        if options.device == "cuda" or lost:
            raise NoDevice
        self._pinned = pinned
        self._index = index
        self._options = options
        self._loads: list[ModelLoaded] = []
        self._models: dict[str, tuple[int, float]] = {}
        self._made: dict[int, list[int]] = {}
        self._dying = False
        self._polls = 0

    def slots(self, model: str) -> int:
        return SLOTS

    def reads_known(self, model: str) -> bool:
        return False

    def ready(self) -> WorkerReady:
        several = self._options.threads > 1 and not self._pinned
        gpus = tuple(f"GPU-{number}" for number in range(self._options.threads)) if several else ()
        return WorkerReady(f"cpu:{self._index}", "float32", "fake", gpus=gpus)

    def load(self, model: str, folder: str, ends: int) -> None:
        name = Path(folder).name
        if name == "crash" or name == f"crash-{ends}":
            os.kill(os.getpid(), signal.SIGSEGV)
        if name == "late":
            self._polls = 8
            return
        refused = name == "absent" or (name == "refused" and self._index == 1)
        error, name = (
            "There is no such folder." if refused else None,
            "1" if name == "refused" else name,
        )
        self._dying, name = name == "dying", "1" if name == "dying" else name
        name = "1" if name == "crash-0" else name
        shift, _, milliseconds = name.partition("-") if error is None else ("0", "", "")
        self._models[model] = (int(shift), float(milliseconds or 0) / 1000)
        self._loads.append(ModelLoaded(model, error=error))

    def loading(self) -> bool:
        return self._polls > 0

    def loaded(self) -> list[ModelLoaded]:
        if self._polls == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        self._polls = max(0, self._polls - 1)
        loads, self._loads = self._loads, []
        return loads

    def unload(self, model: str) -> None:
        del self._models[model]

    def refusal(self, job: Job) -> Failed | None:
        if self._dying:
            os.kill(os.getpid(), signal.SIGSEGV)
        refused = REFUSED in job.source
        return (
            Failed(job.id, "invalid", "There is a token outside the vocabulary.")
            if refused
            else None
        )

    def prefill(self, model: str, sequences: list[Sequence]) -> Callable[[], float]:
        for sequence in sequences:
            assert sequence.id not in self._made
            self._made[sequence.id] = []
        return lambda: 0.0

    def step(self, model: str, sequences: list[Sequence]) -> tuple[list[Sequence], int]:
        shift, seconds = self._models[model]
        time.sleep(seconds)
        slots = [slot for sequence in sequences for slot in sequence.slots]
        assert len(set(slots)) == len(slots) <= SLOTS
        for sequence in sequences:
            made = self._made[sequence.id]
            token = sequence.job.source[-1 - len(made)]
            if len(made) == 1:
                self._fail_on(token)
            made.append(token + shift)
            sequence.steps += 1
            if len(made) == sequence.length:
                sequence.hypotheses = (
                    Hypothesis(tuple(made), (0.0,) * (len(made) + 1), 0.0, "stop"),
                )
        return sequences, 1

    def progress(self, sequence: Sequence) -> tuple[int, ...]:
        return tuple(self._made.get(sequence.id, ()))

    def release(self, sequence: Sequence) -> None:
        self._made.pop(sequence.id, None)

    def attend(self, jobs: list[Job]) -> Iterator[list[JobResult] | None]:
        yield None
        for job in jobs:
            self._fail_on(job.source[-1])
        yield [
            JobResult(job.id, looked=AttentionMaps(*[np.zeros((1, 1, 1, 1))] * 7)) for job in jobs
        ]

    def failure_kind(self, error: Exception) -> FailureKind | None:
        return None if isinstance(error, AssertionError) else "internal"

    @staticmethod
    def _fail_on(token: int) -> None:
        if token == CRASH:
            os.kill(os.getpid(), signal.SIGSEGV)
        if token == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if token == HANG:
            time.sleep(3600)
        if token == RAISE:
            raise RuntimeError("this batch cannot be computed")


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], FakeRunner))
