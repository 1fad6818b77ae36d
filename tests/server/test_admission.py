"""The bounded queue and single flight."""

from __future__ import annotations

import asyncio

import pytest

from server.admission import Admission
from server.errors import Overloaded
from server.single_flight import SingleFlight


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_work_is_bounded_and_given_back():
    admission = Admission(100)
    with admission.admit(60):
        with pytest.raises(Overloaded), admission.admit(50):
            pass
        with admission.admit(40):
            assert admission.accepted == 100
    assert (admission.accepted, admission.requests) == (0, 0)


def test_a_request_over_the_limit_is_served_alone():
    admission = Admission(100)
    with admission.admit(1_000), pytest.raises(Overloaded), admission.admit(1):
        pass
    with pytest.raises(ZeroDivisionError), admission.admit(5):
        raise ZeroDivisionError
    assert admission.accepted == 0


def test_retry_after_follows_from_the_measured_speed():
    clock = Clock()
    admission = Admission(100, clock)
    for _ in range(5):
        with admission.admit(50):
            clock.now += 5.0  # 10 units a second
    with admission.admit(100), pytest.raises(Overloaded) as caught, admission.admit(40):
        pass
    assert caught.value.retry_after == 4


def test_a_deadline_that_cannot_be_met_is_refused_at_once():
    clock = Clock()
    admission = Admission(1_000, clock)
    with admission.admit(100):
        clock.now += 10.0
    with admission.admit(500):
        with pytest.raises(Overloaded) as caught, admission.admit(1, clock.now + 20):
            pass
        assert caught.value.reason == "deadline"
        with admission.admit(1, clock.now + 60):
            pass


def test_idle_time_does_not_count():
    clock = Clock()
    admission = Admission(100, clock)
    with admission.admit(50):
        clock.now += 5.0
    clock.now += 3_600.0
    with admission.admit(50):
        clock.now += 5.0
    assert admission.seconds(10) == pytest.approx(1.0, rel=0.2)


def test_identical_work_is_done_once():
    async def scenario() -> None:
        flights: SingleFlight[str] = SingleFlight()
        started: list[asyncio.Future[str]] = []

        def start() -> asyncio.Future[str]:
            started.append(asyncio.get_running_loop().create_future())
            return started[-1]

        seats = [flights.join("key", start) for _ in range(6)]
        waiting = [asyncio.ensure_future(seat.result()) for seat in seats]
        await asyncio.sleep(0)
        started[0].set_result("done")
        assert await asyncio.gather(*waiting) == ["done"] * 6
        assert (len(started), flights.shared, len(flights)) == (1, 5, 0)
        flights.join("key", start)
        assert len(started) == 2

    asyncio.run(scenario())


def test_the_last_to_leave_cancels():
    async def scenario() -> None:
        flights: SingleFlight[str] = SingleFlight()
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        first, second = (flights.join("key", lambda: future) for _ in range(2))
        waiting = asyncio.ensure_future(first.result())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        first.leave()
        first.leave()
        assert not future.cancelled()
        second.leave()
        assert future.cancelled() and len(flights) == 0

    asyncio.run(scenario())


def test_a_failure_reaches_everybody():
    async def scenario() -> None:
        flights: SingleFlight[str] = SingleFlight()
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        seats = [flights.join("key", lambda: future) for _ in range(3)]
        future.set_exception(ValueError("no"))
        for seat in seats:
            with pytest.raises(ValueError, match="no"):
                await seat.result()
            seat.leave()

    asyncio.run(scenario())
