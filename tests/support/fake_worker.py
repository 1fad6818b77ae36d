"""A worker process whose model is arithmetic: the real loop, scheduler and pipes, no torch. Some ids make it misbehave."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from model.analysis.types import AttentionMaps
from model.search.options import Hypothesis
from server.engine.ipc.messages import (
    AttentionJob,
    AttentionResult,
    FailureKind,
    ModelLoaded,
    TranslateJob,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.main import serve
from server.engine.worker.runner_interface import Finished, Loaded, Stepped
from server.engine.worker.sequence import Look, Sequence

COMMAND = (sys.executable, str(Path(__file__).resolve()))
CRASH, HANG, RAISE, KILL, REFUSED = 90_001, 90_002, 90_003, 90_004, 90_005
SLOTS = 8


def expected(source: tuple[int, ...], shift: int = 1) -> tuple[int, ...]:
    """What this model translates `source` to."""
    return tuple(token + shift for token in reversed(source))


class FakeRunner:
    """One token per step. A folder name says how the model behaves: its shift, its step time in ms, or how it fails:
    "absent", "crash" while it is loaded, "dying" at the first job."""

    def __init__(self, options: WorkerOptions, index: int) -> None:
        self._index = index
        self._options = options
        self._loads: list[Loaded] = []
        self._lanes: dict[int, tuple[int, float]] = {}
        self._made: dict[int, list[int]] = {}
        self._dying = False

    def ready(self) -> WorkerReady:
        return WorkerReady(f"cpu:{self._index}", "float32", "fake", device_count=max(1, self._options.devices))

    def load(self, model: str, folder: str) -> None:
        name = Path(folder).name
        if name == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        error = "There is no such folder." if name == "absent" else None
        self._dying, name = name == "dying", "1" if name == "dying" else name
        shift, _, milliseconds = name.partition("-") if error is None else ("0", "", "")
        served = (int(shift), float(milliseconds or 0) / 1000)
        self._loads.append(Loaded(model, served, SLOTS, ModelLoaded(model, 1, 1, 0.0, error)))

    def loading(self) -> bool:
        return False

    def loaded(self) -> list[Loaded]:
        loads, self._loads = self._loads, []
        return loads

    def attach(self, lane: int, loaded: Loaded) -> None:
        assert isinstance(loaded.served, tuple)
        self._lanes[lane] = loaded.served

    def detach(self, lane: int) -> None:
        del self._lanes[lane]

    def refusal(self, lane: int, job: TranslateJob | AttentionJob) -> str | None:
        if self._dying:
            os.kill(os.getpid(), signal.SIGSEGV)
        return "There is a token outside the vocabulary." if REFUSED in job.source else None

    def prefill(self, lane: int, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            assert sequence.id not in self._made
            self._made[sequence.id] = []

    def step(self, lane: int, sequences: list[Sequence]) -> Stepped:
        shift, seconds = self._lanes[lane]
        time.sleep(seconds)
        slots = [slot for sequence in sequences for slot in sequence.slots]
        assert len(set(slots)) == len(slots) <= SLOTS
        finished = []
        for sequence in sequences:
            made = self._made[sequence.id]
            token = sequence.job.source[-1 - len(made)]
            if len(made) == 1:
                self._misbehave(token)
            made.append(token + shift)
            sequence.steps += 1
            if len(made) == sequence.length:
                scores = (0.0,) * (len(made) + 1)
                finished.append(Finished(sequence, (Hypothesis(tuple(made), scores, 0.0, "stop"),)))
        return Stepped(1, len(sequences), tuple(finished))

    def progress(self, sequence: Sequence) -> tuple[int, ...]:
        return tuple(self._made.get(sequence.id, ()))

    def release(self, lane: int, sequence: Sequence) -> None:
        self._made.pop(sequence.id, None)

    def attend(self, look: Look) -> AttentionResult:
        self._misbehave(look.job.source[-1])
        return AttentionResult(look.id, AttentionMaps(*[np.zeros((1, 1))] * 6))

    def blame(self, error: Exception) -> FailureKind | None:
        return None if isinstance(error, AssertionError) else "internal"

    @staticmethod
    def _misbehave(token: int) -> None:
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
