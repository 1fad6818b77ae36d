"""A GPU only queues a prefill: its time is known when a later step was read."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from model.search.options import DEFAULT_GENERATION, DecodingOptions
from server.engine.ipc.messages import Job
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.loop import WorkerLoop
from server.engine.worker.model_runner import ModelRunner
from server.engine.worker.sequence import Sequence


def test_a_prefill_is_recorded_when_the_device_has_ended_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter((0.0, 10.0, 20.0, 20.5))
    monkeypatch.setattr("time.monotonic", lambda: next(clock, 30.0))
    sequence = Sequence(Job(1, "m", (5, 3), DecodingOptions()), 0.0, False)
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
