"""The worker's loop sends one frame per step."""

from __future__ import annotations

from typing import Any

from model.search.options import DecodingOptions
from server.engine.ipc.messages import (
    Failed,
    LoadModel,
    Started,
    StepStats,
    TranslateJob,
    TranslationResult,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.loop import WorkerLoop
from tests.support.engine.fake_worker import FakeRunner


class ScriptedPipes:
    """Pipes that deliver one list of messages per call, and then are closed."""

    def __init__(self, script: list[list[Any]]) -> None:
        self.closed = False
        self.sent: list[list[Any]] = []
        self._script = script

    def receive(self, wait: float | None) -> list[Any]:
        self.closed = len(self._script) == 1
        return self._script.pop(0)

    def send(self, messages: list[Any]) -> None:
        self.sent.append(list(messages))


def test_the_answers_of_a_step_and_the_start_of_the_next_jobs_are_one_frame():
    jobs = [TranslateJob(i, "m", (5, 6), DecodingOptions()) for i in range(8)]
    pipes = ScriptedPipes([[LoadModel("m", "1")], [], *[[job] for job in jobs], [], [], [], []])
    options = WorkerOptions()
    WorkerLoop(pipes, FakeRunner(options, 0), options).serve()  # type: ignore[arg-type]
    frames = [[message for message in frame if not isinstance(message, StepStats)] for frame in pipes.sent]
    assert isinstance(frames[0][0], WorkerReady)
    started = [frame for frame in frames if any(isinstance(message, Started) for message in frame)]
    assert [frame[-1].ids for frame in started] == [(job.id,) for job in jobs]
    answered = [message.id for frame in frames for message in frame if isinstance(message, TranslationResult)]
    assert answered == [job.id for job in jobs]
    assert sum(len(frame) > 1 for frame in started) > len(jobs) // 2


def test_a_beam_without_enough_slots_is_refused_with_both_parameters_that_make_it_wide():
    job = TranslateJob(1, "m", (5, 6), DecodingOptions(beam_size=32))
    pipes = ScriptedPipes([[LoadModel("m", "1")], [], [job], []])
    options = WorkerOptions()
    WorkerLoop(pipes, FakeRunner(options, 0), options).serve()  # type: ignore[arg-type]
    [failed] = [message for frame in pipes.sent for message in frame if isinstance(message, Failed)]
    assert failed.kind == "invalid"
    assert "32 hypotheses" in failed.message and "beam_size" in failed.message and "alternatives" in failed.message
