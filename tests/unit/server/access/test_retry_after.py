"""Retry-After is at most 1.5 times the true wait, whatever rejected callers send: a simulated clock
and the real Admission."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Iterator

import pytest

from server.access import admission as door
from server.access.admission import Admission, Ask, Invitations, Permit
from server.engine.client.lease import Backlog
from server.errors import Overloaded

SPEED = 1_000.0
"""Units of work per second."""
POLL = 0.05
"""Seconds between two attempts of the client that measures the true wait."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Server:
    """Does one request after the other at SPEED; events in simulated time."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.admission = Admission(Backlog(200_000), 5.0, self.clock)
        self._running: deque[tuple[float, Permit]] = deque()
        self._idle_from = 0.0
        self.keys = itertools.count()
        with self.admission.admit(1_000):
            self.clock.now = 1_000 / SPEED  # the speed is known
        self.clock.now = 0.0

    def advance(self, now: float) -> None:
        while self._running and self._running[0][0] <= now:
            self.clock.now, permit = self._running.popleft()
            permit.release(succeeded=True)
        self.clock.now = now

    def send(self, cost: int, caller: str, key: int) -> int | None:
        """Returns the Retry-After of a request, or None for one that is accepted."""
        try:
            permit = self.admission.admit(
                cost, caller=caller, key=key, kind="document" if cost > 2_000 else "short"
            )
        except Overloaded as rejection:
            return rejection.retry_after
        self._idle_from = max(self._idle_from, self.clock.now) + cost / SPEED
        self._running.append((self._idle_from, permit))
        return None


def hogs(
    server: Server, until: float, loops: int, cost: int, pause: float, callers: int, honest: float
) -> Iterator[float]:
    """Yields the times of the attempts of loops that send a new text after each rejection; a share
    `honest` of them sends the same one after Retry-After."""
    rng = random.Random(1)
    due = [(rng.random() * pause, loop, -1) for loop in range(loops)]
    heapq.heapify(due)
    while due[0][0] < until:
        now, loop, key = heapq.heappop(due)
        yield now
        server.advance(now)
        key = next(server.keys) if key < 0 else key
        wait = server.send(cost, f"hog {loop % callers}", key)
        patient = wait is not None and rng.random() < honest
        heapq.heappush(
            due,
            (
                now + (wait if patient and wait else pause) * (0.9 + 0.2 * rng.random()),
                loop,
                key if patient else -1,
            ),
        )


@pytest.mark.parametrize("stop", [True, False], ids=["they stop", "they go on"])
@pytest.mark.parametrize("stranger", ["stranger", "hog 0"])
@pytest.mark.parametrize("callers", [1, 16])
@pytest.mark.parametrize(("cost", "pause"), [(100, 0.05), (1_900, 0.1), (20_000, 0.5)])
def test_hogs_do_not_prolong_the_wait_that_a_stranger_is_told(cost, pause, callers, stranger, stop):
    ratios = []
    for begin, size in itertools.product(
        (12.0, 12.7, 13.9), (20_000, 30_000) if cost > 2_000 else (10, 100)
    ):
        server = Server()
        attempts = hogs(server, begin + (0.0 if stop else 120.0), 16, cost, pause, callers, 0.0)
        told, waited = told_and_waited(server, attempts, begin, size, stranger)
        ratios.append(told / max(1.0, waited))
    assert sum(ratio <= 1.5 for ratio in ratios) >= 0.8 * len(ratios), ratios


def told_and_waited(
    server: Server, attempts: Iterator[float], begin: float, size: int, caller: str
) -> tuple[int, float]:
    """Returns the first Retry-After of a request at the time `begin`, and the seconds after which
    it is accepted if it is repeated all the time."""
    for now in attempts:
        if now >= begin:
            break
    server.advance(now := begin)
    told = wait = server.send(size, caller, -1)
    while wait is not None:
        now += POLL
        for attempt in attempts:
            if attempt >= now:
                break
        server.advance(now)
        wait = server.send(size, caller, -1)
    return told or 0, now - begin


def test_the_wait_for_an_own_share_counts_what_others_finish():
    """Sixteen callers fill the room; each waits for a part of its own work, not for sixteen times
    as much."""
    server = Server()
    server.advance(1.0)  # the lease has the speed
    for number in range(10_000):
        server.send(10, f"caller {number % 16}", next(server.keys))
    queue = server.admission.queues["short"]
    for caller in queue.callers:
        excess, _ = server.admission._excess(Ask(100, caller), "short", 1.0)
        assert 0 < excess <= min(queue.units, 3_000)


def test_repeating_a_rejected_request_too_early_changes_nothing():
    server = Server()
    while server.send(10, "a", next(server.keys)) is None:
        pass
    told = server.send(10, "a", -1)
    assert told is not None
    assert {server.send(10, "a", -1) for _ in range(1_000)} == {told}


def test_requests_that_never_return_count_for_nothing_and_are_forgotten(monkeypatch):
    monkeypatch.setattr(door, "INVITATIONS_LIMIT", 100)
    invited = Invitations()
    for key in range(10_000):
        invited.take_up(None, key / 100)
        invited.add(key, key / 100 + 1.0, 1_000)
    assert len(invited) <= 100 and invited.returning == 0 and invited.work == 0
    invited.take_up(None, 1e6)
    assert not invited and invited.work == 0


def test_the_share_of_returning_requests_is_measured():
    rng, invited = random.Random(1), Invitations()
    returning: deque[tuple[float, int]] = deque()
    for key in range(5_000):
        now = key / 100
        while returning and returning[0][0] <= now:
            invited.take_up(returning.popleft()[1], now)
        invited.take_up(None, now)
        invited.add(key, now + 1.0, 10)
        if rng.random() < 0.3:
            returning.append((now + 1.1, key))
    assert 0.15 < invited.returning < 0.45
