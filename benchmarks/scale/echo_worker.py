"""A worker that answers at once with prepared targets: `python -m benchmarks.scale.echo_worker
PREPARED INDEX OPTIONS`.

PREPARED is a JSON file of pairs [source ids, target ids]. A source that is not in it gets its own
tokens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from model.search.options import Hypothesis
from server.engine.ipc.messages import FailureKind, Job, JobResult, ModelLoaded, WorkerReady
from server.engine.ipc.options import WorkerOptions
from server.engine.worker import sequence
from server.engine.worker.loop import serve

SLOTS = 256
_SCORE = -0.1
"""Of each token: likely enough that nothing is decoded again."""


class EchoRunner:
    """A ModelRunner without a model: every sequence has its prepared target after one step."""

    not_finite = ""

    def __init__(
        self, prepared: Path, options: WorkerOptions, index: int, pinned: bool = False
    ) -> None:
        pairs = json.loads(prepared.read_text(encoding="utf-8"))
        self._targets = {tuple(source): tuple(target) for source, target in pairs}
        self._name, self._loads = f"cpu:{index}", list[ModelLoaded]()

    def ready(self) -> WorkerReady:
        return WorkerReady(self._name, "int8", "echo")

    def slots(self, model: str) -> int:
        return SLOTS

    def reads_known(self, model: str) -> bool:
        return True

    def load(self, model: str, folder: str, ends: int) -> None:
        self._loads.append(ModelLoaded(model))

    def loading(self) -> bool:
        return False

    def loaded(self) -> list[ModelLoaded]:
        loads, self._loads = self._loads, []
        return loads

    def unload(self, model: str) -> None:
        """Does nothing: there is no model."""

    def refusal(self, job: Job) -> None:
        """Refuses nothing."""

    def prefill(self, model: str, admitted: Sequence[sequence.Sequence]) -> Callable[[], float]:
        """Takes no time: there is no encoder."""
        return lambda: 0.0

    def step(
        self, model: str, running: list[sequence.Sequence]
    ) -> tuple[list[sequence.Sequence], int]:
        for each in running:
            source = tuple(each.job.source)
            target = self._targets.get(source, source[1:-1])
            scores = (_SCORE,) * (len(target) + 1)
            best = Hypothesis(target, scores, _SCORE, "stop")
            each.steps, each.hypotheses = len(scores), (best,) * each.job.options.hypotheses
        return running, 1

    def progress(self, running: sequence.Sequence) -> tuple[int, ...]:
        return ()

    def release(self, running: sequence.Sequence) -> None:
        """Does nothing: there are no slots."""

    def attend(self, jobs: list[Job]) -> Iterator[list[JobResult] | None]:
        raise NotImplementedError("The echo has no attention.")

    def failure_kind(self, error: Exception) -> FailureKind | None:
        return None


if __name__ == "__main__":
    sys.exit(serve(sys.argv[2:], partial(EchoRunner, Path(sys.argv[1]))))  # type: ignore[arg-type]
