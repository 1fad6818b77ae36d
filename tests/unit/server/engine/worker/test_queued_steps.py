"""A worker queues the next steps of greedy searches before it reads the last ones, and translates
as without. A GPU only queues a prefill: its time is known when a later step was read."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from model.backends.cuda.graphs import GraphedBackend
from model.search import driver
from model.search.backend_interface import StepOutput
from model.search.driver import translate
from model.search.options import DEFAULT_GENERATION, DecodingOptions
from server.engine.ipc.messages import Cancel, Failed, Job
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.loop import WorkerLoop
from server.engine.worker.model_runner import ModelRunner
from server.engine.worker.scheduler import ModelQueue
from server.engine.worker.sequence import Sequence as Started
from tests.support.models.folders import assert_same_up_to_ties
from tests.support.models.random_models import random_model

LONGEST = 20
SHAPE = "recurrence, pre-norm, two vocabularies"
MODELS = [
    random_model(SHAPE, 22, max_length=LONGEST, recurrence="none"),
    random_model(SHAPE, 23, max_length=LONGEST),
]
KINDS = [
    *[{"max_length": LONGEST}, {"loop_guard": True}] * 3, {"max_length": 6}, {"beam_size": 2}, {"prefix": (5, 6)},
    {"target": (7, 8, 9)}, {"masked_heads": (("cross", 0, 1),)},
]  # fmt: skip


class Logged(GraphedBackend):
    """Logs what is queued and read. The steps with the numbers `failing` run out of memory."""

    def __init__(self, model: int, failing: Sequence[int] = ()) -> None:
        super().__init__(MODELS[model], 4, capture=False)
        self.log: list[str] = []
        self._failing, self._steps = failing, 0

    def prefill(
        self, sources: Any, slots: Any, masked_heads: Any = (), restrictions: Any = ()
    ) -> None:
        self.log.append(f"encode {len(slots)}")
        for source, slot, masked in zip(
            sources, slots, masked_heads or [()] * len(slots), strict=True
        ):
            super().prefill([source], [slot], [masked])  # of equal bits in every batch

    def queue_steps(self, slots: Any, *arguments: Any) -> Callable[[], list[StepOutput]]:
        number = 1 + sum(entry.startswith("queue") for entry in self.log)
        self.log.append(f"queue {number} of {len(slots)}")
        read = super().queue_steps(slots, *arguments)
        return lambda: self.log.append(f"read {number}") or read()  # type: ignore[func-returns-value]

    def _compute(self, *arguments: Any) -> torch.Tensor:
        if max(self.cache.live.tolist()) >= LONGEST:
            pytest.fail("A row writes beyond its room.")
        self._steps += 1
        if self._steps in self._failing:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super()._compute(*arguments)


def serve(backend: Logged, turns: list[list[Any]]) -> dict[int, Any]:
    """Runs a worker that receives the messages of one turn before each of its steps. Returns the
    answers."""
    runner = ModelRunner(WorkerOptions(device="cpu", threads=1), 0)
    folder = Mock(model=backend.transformer.config, generation=DEFAULT_GENERATION)
    runner.attach("m", Mock(folder=folder, backend=backend, engine="fake"))
    loop = WorkerLoop(Mock(), runner, WorkerOptions())
    loop._scheduler.queues["m"] = ModelQueue(backend.slots)
    while turns or loop._scheduler.jobs:
        for message in turns.pop(0) if turns else []:
            loop._handle(message)
        loop._run(loop._scheduler.schedule())
    answers: list[Any] = loop._outbox
    found = {answer.id: answer for answer in answers}
    assert len(found) == len(answers) and not any(backend.cache.lengths)
    return found


def job(id: int, options: dict[str, Any] = KINDS[0], priority: int = 0) -> Job:
    rng = random.Random(id)
    source = *rng.choices(range(4, 50), k=rng.randint(1, 12)), 3
    return Job(id, "m", source, DecodingOptions(**options), priority)


def test_the_next_steps_are_queued_before_the_last_are_read() -> None:
    backend = Logged(0)
    serve(backend, [[job(3)], [], [], [job(4, {"max_length": 6})]])
    # A newcomer waits for the steps that were queued when it came. No steps are queued while a row
    # may be full.
    assert backend.log == [
        *("encode 1", "queue 1 of 1", "queue 2 of 1", "read 1", "queue 3 of 1", "read 2"),
        *("encode 1", "queue 4 of 2", "read 3", "queue 5 of 2", "read 4", "read 5"),
    ]


def test_greedy_rows_beside_a_beam_go_on_before_the_host_has_seen_their_tokens() -> None:
    """And the beam's step is read before the next one is queued, which is at once of both."""
    backend = Logged(0)
    jobs = [
        job(3),
        job(4, {"beam_size": 2, "max_length": 5}),
        job(5, {"no_repeat_ngram_size": 2, "max_length": 5}),
    ]
    found = serve(backend, [jobs])
    queued = [number for number, entry in enumerate(backend.log) if entry.startswith("queue")]
    assert backend.log[:6] == [
        "encode 3",
        "queue 1 of 3",
        "read 1",
        "queue 2 of 4",
        "read 2",
        "queue 3 of 4",
    ]
    assert len(queued) == sum(entry.startswith("read") for entry in backend.log)
    assert {number: len(answer.hypotheses) for number, answer in found.items()} == {
        3: 1,
        4: 1,
        5: 1,
    }
    alone = serve(Logged(0), [[jobs[0]]])
    assert_same_up_to_ties(found[3].hypotheses, alone[3].hypotheses, 1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_without_queued_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    jobs = [job(id, rng.choice(KINDS), rng.randrange(2)) for id in range(20)]
    turns: list[list[Any]] = [[] for _ in range(30)]
    for one in jobs:
        arrival = rng.randrange(25)
        turns[arrival].append(one)
        if rng.random() < 0.2:
            turns[arrival + rng.randrange(1, 5)].append(Cancel(one.id))
    backend = Logged(seed % 2, failing=rng.sample(range(1, 120), seed % 3))
    found = serve(backend, turns)
    assert len(backend.log) > 20
    monkeypatch.setattr(driver, "supports_queueing", lambda backend: False)
    sources, options = [one.source for one in jobs], [one.options for one in jobs]
    plain = Logged(seed % 2)
    expected = translate(plain, sources, options, plain.transformer.config)
    failed = [
        answer
        for answer in found.values()
        if isinstance(answer, Failed) and answer.kind != "cancelled"
    ]
    assert len(failed) <= seed % 3 and {answer.kind for answer in failed} <= {"out_of_memory"}
    for one, hypotheses in zip(jobs, expected, strict=True):
        if not isinstance(found[one.id], Failed):
            # products differ with the batch
            assert_same_up_to_ties(found[one.id].hypotheses, hypotheses, 1e-4)


@pytest.mark.parametrize("options", KINDS[4:])
def test_a_text_that_overflows_is_answered_and_the_others_too(options: dict[str, Any]) -> None:
    backend = Logged(0)
    backend.transformer = copy.deepcopy(backend.transformer)
    jobs = [job(id, options) for id in range(6)]
    bad = jobs[2].source[0]
    broken = [number for number, one in enumerate(jobs) if bad in one.source]
    assert len(broken) < len(jobs)
    with torch.no_grad():
        backend.transformer.source_embedding.weight[bad] = 3e38
    found = serve(backend, [jobs[:3], [], jobs[3:]])
    for number, answer in found.items():
        if number in broken:
            assert (
                isinstance(answer, Failed)
                and answer.kind == "internal"
                and "overflow" in answer.message
            )
        else:
            assert answer.hypotheses


def test_a_prefill_is_recorded_when_the_device_has_ended_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter((0.0, 10.0, 20.0, 20.5))
    monkeypatch.setattr("time.monotonic", lambda: next(clock, 30.0))
    sequence = Started(Job(1, "m", (5, 3), DecodingOptions()), 0.0, False)
    runner = Mock(step=Mock(return_value=([sequence], 2)))
    runner.prefill.return_value = Mock(side_effect=[None, 0.4])
    worker = WorkerLoop(Mock(), runner, WorkerOptions())
    worker._scheduler = Mock()
    worker._prefill("m", [sequence])
    worker._scheduler.record_prefill.assert_not_called()
    worker._step("m", [sequence])
    worker._scheduler.record_prefill.assert_called_once_with([sequence], 0.4)
    [(_, seconds, steps)] = [call.args for call in worker._scheduler.record_step.call_args_list]
    assert steps == 2 and seconds == pytest.approx(20.5 - 20.0 - 0.4)
    assert sequence.encoded == 10.4


def test_a_gpu_measures_a_prefill_by_its_own_events(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [Mock(elapsed_time=lambda other: 400.0), Mock(query=Mock(side_effect=[False, True]))]
    monkeypatch.setattr("torch.cuda.Event", Mock(side_effect=events))
    runner = ModelRunner(WorkerOptions(device="cpu", threads=1), 0)
    monkeypatch.setattr(runner, "cuda", True)
    folder = Mock(generation=DEFAULT_GENERATION)
    runner._models["m"], runner._drivers["m"] = Mock(folder=folder), Mock()
    seconds = runner.prefill("m", [])
    assert [event.record.call_count for event in events] == [1, 1]
    assert (seconds(), seconds()) == (None, 0.4)
