"""The clock of a training: steps count, pauses of the process do not."""

from model.training.loop.step_clock import StepClock


class FakeTime:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _clock(time: FakeTime, *steps: float, seconds: float = 0.0) -> StepClock:
    clock = StepClock(seconds, time)
    for step in steps:
        time.now += step
        clock.add_step()
    return clock


def test_steps_add_up_to_the_time_that_passed() -> None:
    assert _clock(FakeTime(), 5.0, 2.0, 3.0, 2.0, 2.0, 2.5, seconds=50.0).seconds == 66.5


def test_a_stopped_process_does_not_use_up_the_budget() -> None:
    assert _clock(FakeTime(), *[2.0] * 6, 3600.0, 2.0).seconds == 16.0


def test_a_validation_counts_in_full() -> None:
    time = FakeTime()
    clock = _clock(time, *[2.0] * 6)
    time.now += 300.0
    clock.add_other()
    time.now += 2.0
    assert clock.add_step() == 314.0
