"""The bounded queue and single flight."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from contextlib import ExitStack

import pytest

from server.access.admission import Admission
from server.engine.client.single_flight import SingleFlight
from server.errors import Overloaded


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
    admission = Admission(100, clock=clock)
    for _ in range(5):
        with admission.admit(50):
            clock.now += 5.0  # 10 units a second
    with admission.admit(100), pytest.raises(Overloaded) as caught, admission.admit(40):
        pass
    assert caught.value.retry_after == 4


def test_a_deadline_that_cannot_be_met_is_refused_at_once():
    clock = Clock()
    admission = Admission(1_000, clock=clock)
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
    admission = Admission(100, clock=clock)
    with admission.admit(50):
        clock.now += 5.0
    clock.now += 3_600.0
    with admission.admit(50):
        clock.now += 5.0
    assert admission.seconds(10) == pytest.approx(1.0, rel=0.2)


def overloaded(attempts: int, patient: float, rate: float = 200.0, speed: float = 1_000.0) -> dict[str, float]:
    """A server that does `speed` units a second meets `rate` attempts a second of 10 units each, half of which it can
    take. Those refused come back when they were told to, with probability `patient`, in the place of new ones."""
    clock, rng = Clock(), random.Random(1)
    admission = Admission(1_000_000, 5.0, clock)
    free = 0.0  # when the server is done with what it has
    running: deque[tuple[float, ExitStack]] = deque()
    due: list[tuple[float, int]] = []
    told = {"came": 0, "in": 0, "longest": 0.0, "slowest": 0.0, "served": 0}
    for number in range(attempts):
        moment = number / rate
        while running and running[0][0] <= moment:
            clock.now, stack = running.popleft()
            stack.close()
        clock.now = moment
        back = bool(due) and due[0][0] <= moment
        key = heapq.heappop(due)[1] if back else number
        told["came"] += back
        stack = ExitStack()
        try:
            stack.enter_context(admission.admit(10, key=key))
        except Overloaded as refusal:
            told["longest"] = max(told["longest"], refusal.retry_after)
            if back or rng.random() < patient:
                heapq.heappush(due, (moment + refusal.retry_after + rng.random() * 0.2, key))
            continue
        told["in"] += back
        free = max(free, moment) + 10 / speed
        told["slowest"] = max(told["slowest"], free - moment)
        told["served"] += 1
        running.append((free, stack))
    return told


@pytest.mark.parametrize("patient", [0.1, 0.5, 1.0])
def test_who_comes_back_when_told_to_gets_in(patient):
    told = overloaded(60_000, patient)  # five minutes
    assert told["came"] > 300
    assert told["in"] >= 0.99 * told["came"]
    assert told["served"] >= 0.98 * 30_000, "the server was not kept busy"
    assert told["slowest"] <= 6.0
    assert told["longest"] <= 120


def test_who_asks_again_too_early_is_told_the_rest():
    clock = Clock()
    admission = Admission(100, clock=clock)
    with admission.admit(100):
        clock.now += 10.0
    with admission.admit(100):
        for passed, rest in ((0.0, 5), (2.5, 3), (1.0, 2)):
            clock.now += passed
            with pytest.raises(Overloaded) as caught, admission.admit(50, key="mine"):
                pass
            assert caught.value.retry_after == rest


def test_documents_leave_room_for_short_requests():
    admission = Admission(1_000)
    with admission.admit(900, document=True):
        with pytest.raises(Overloaded), admission.admit(10, document=True):
            pass
        with admission.admit(50), admission.admit(50), pytest.raises(Overloaded), admission.admit(50):
            pass


def test_a_short_request_does_not_wait_for_documents():
    """Its deadline is judged by what is before it, and documents are behind it."""
    clock = Clock()
    admission = Admission(10_000, 5.0, clock)
    with admission.admit(1_000, document=True):
        clock.now += 100.0
    with admission.admit(5_000, document=True):
        with admission.admit(10, clock.now + 1):
            pass
        with pytest.raises(Overloaded), admission.admit(10, clock.now + 1, document=True):
            pass


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
