"""The bounded queue: limits, Retry-After, deadlines, documents."""

from __future__ import annotations

import heapq
import random
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from server.access.admission import Admission
from server.errors import Overloaded


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_work_is_bounded_and_released():
    admission = Admission(100)
    with admission.admit(60):
        with pytest.raises(Overloaded), admission.admit(50):
            pass
        with admission.admit(40):
            assert admission.accepted == 100
    assert (admission.accepted, admission.requests) == (0, 0)


def test_a_request_over_the_limit_is_admitted_to_an_empty_queue():
    admission = Admission(100)
    with admission.admit(1_000), pytest.raises(Overloaded), admission.admit(1):
        pass
    with pytest.raises(ZeroDivisionError), admission.admit(5):
        raise ZeroDivisionError
    assert admission.accepted == 0


def test_retry_after_is_estimated_from_the_measured_speed():
    clock = Clock()
    admission = Admission(100, clock=clock)
    for _ in range(5):
        with admission.admit(50):
            clock.now += 5.0  # 10 units a second
    with admission.admit(100), pytest.raises(Overloaded) as caught, admission.admit(40):
        pass
    assert caught.value.retry_after == 4


def test_a_request_that_cannot_meet_its_deadline_is_rejected_at_once():
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


def test_idle_time_is_not_measured():
    clock = Clock()
    admission = Admission(100, clock=clock)
    with admission.admit(50):
        clock.now += 5.0
    clock.now += 3_600.0
    with admission.admit(50):
        clock.now += 5.0
    assert admission.seconds(10) == pytest.approx(1.0, rel=0.2)


@dataclass
class Outcome:
    """Counts of a simulation. Times are in seconds."""

    retries: int = 0
    retries_admitted: int = 0
    served: int = 0
    longest_retry_after: float = 0.0
    longest_wait: float = 0.0


def simulate_overload(attempts: int, retrying: float, rate: float = 200.0, speed: float = 1_000.0) -> Outcome:
    """Simulates a server that does `speed` units per second and receives `rate` attempts per second of 10 units each,
    twice its capacity. A rejected request is retried after its Retry-After with probability `retrying`. A retry takes
    the place of a new request."""
    clock, rng = Clock(), random.Random(1)
    admission = Admission(1_000_000, 5.0, clock)
    idle_from = 0.0
    running: deque[tuple[float, ExitStack]] = deque()
    due: list[tuple[float, int]] = []
    outcome = Outcome()
    for number in range(attempts):
        now = number / rate
        while running and running[0][0] <= now:
            clock.now, stack = running.popleft()
            stack.close()
        clock.now = now
        retry = bool(due) and due[0][0] <= now
        key = heapq.heappop(due)[1] if retry else number
        outcome.retries += retry
        stack = ExitStack()
        try:
            stack.enter_context(admission.admit(10, key=key))
        except Overloaded as rejection:
            outcome.longest_retry_after = max(outcome.longest_retry_after, rejection.retry_after)
            if retry or rng.random() < retrying:
                heapq.heappush(due, (now + rejection.retry_after + rng.random() * 0.2, key))
            continue
        outcome.retries_admitted += retry
        idle_from = max(idle_from, now) + 10 / speed
        outcome.longest_wait = max(outcome.longest_wait, idle_from - now)
        outcome.served += 1
        running.append((idle_from, stack))
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("retrying", [0.1, 0.5, 1.0])
def test_a_retry_after_its_retry_after_is_admitted(retrying):
    outcome = simulate_overload(60_000, retrying)  # five minutes
    assert outcome.retries > 300
    assert outcome.retries_admitted >= 0.99 * outcome.retries
    assert outcome.served >= 0.98 * 30_000, "the server was idle at times"
    assert outcome.longest_wait <= 6.0
    assert outcome.longest_retry_after <= 120


def test_an_early_retry_gets_the_remaining_time():
    clock = Clock()
    admission = Admission(100, clock=clock)
    with admission.admit(100):
        clock.now += 10.0
    with admission.admit(100):
        for passed, remaining in ((0.0, 5), (2.5, 3), (1.0, 2)):
            clock.now += passed
            with pytest.raises(Overloaded) as caught, admission.admit(50, key="mine"):
                pass
            assert caught.value.retry_after == remaining


def test_documents_leave_room_for_short_requests():
    admission = Admission(1_000)
    with admission.admit(900, document=True):
        with pytest.raises(Overloaded), admission.admit(10, document=True):
            pass
        with admission.admit(50), admission.admit(50), pytest.raises(Overloaded), admission.admit(50):
            pass


def test_the_deadline_of_a_short_request_ignores_documents():
    """Documents are processed after short requests, so they do not delay them."""
    clock = Clock()
    admission = Admission(10_000, 5.0, clock)
    with admission.admit(1_000, document=True):
        clock.now += 100.0
    with admission.admit(5_000, document=True):
        with admission.admit(10, clock.now + 1):
            pass
        with pytest.raises(Overloaded), admission.admit(10, clock.now + 1, document=True):
            pass
