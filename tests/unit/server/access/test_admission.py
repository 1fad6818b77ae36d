"""The bounded queue: limits, Retry-After, deadlines, documents."""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest

from server.access.admission import Admission, Permit
from server.engine.client.lease import Backlog
from server.errors import Overloaded, Unavailable


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def fill(admission: Admission, **options: object) -> list[Permit]:
    """Admits requests of one unit until there is no room."""
    permits: list[Permit] = []
    with suppress(Overloaded):
        while True:
            permits.append(admission.admit(1, **options))
    return permits


def retry_after(admission: Admission) -> int:
    """Returns the Retry-After of a request that is 39 units over the limit."""
    with admission.admit(100), pytest.raises(Overloaded) as caught, admission.admit(39):
        pass
    return caught.value.retry_after


def test_work_is_bounded_and_released():
    admission = Admission(Backlog(100))
    with admission.admit(60):
        with pytest.raises(Overloaded), admission.admit(50):
            pass
        permit = admission.admit(40)
        assert (admission.accepted, admission.requests) == (100, 2)
        permit.release(succeeded=True)
        permit.release()
    assert (admission.accepted, admission.requests) == (0, 0)


def test_a_request_over_the_limit_is_admitted_to_an_empty_queue():
    admission = Admission(Backlog(100))
    with admission.admit(1_000), pytest.raises(Overloaded), admission.admit(1):
        pass
    with pytest.raises(ZeroDivisionError), admission.admit(5):
        raise ZeroDivisionError
    assert admission.accepted == 0


def test_retry_after_is_estimated_from_the_speed_of_successful_work():
    clock = Clock()
    admission = Admission(Backlog(100), clock=clock)
    for _ in range(5):
        with admission.admit(50):
            clock.now += 5.0  # 10 units a second
        with suppress(TimeoutError), admission.admit(50):
            clock.now += 60.0
            raise TimeoutError
        clock.now += 3_600.0
    assert retry_after(admission) == 4


def test_a_request_that_cannot_meet_its_deadline_is_rejected_at_once():
    clock = Clock()
    admission = Admission(Backlog(1_000), clock=clock)
    with admission.admit(1_000):
        clock.now += 100.0
    with admission.admit(500):
        with pytest.raises(Overloaded) as caught, admission.admit(1, clock.now + 20):
            pass
        assert caught.value.reason == "deadline"
        with admission.admit(1, clock.now + 60):
            pass


@pytest.mark.parametrize("frozen", [15.0, 600.0, 86_400.0])
def test_a_server_that_was_frozen_rejects_no_lone_request_and_finds_its_speed_again(
    frozen: float,
) -> None:
    """Its speed seemed to be almost 0, and with rejections there was never enough work to measure
    it again."""
    clock = Clock()
    # a unit takes a millisecond; 1,000 units are measured
    admission = Admission(Backlog(4_000), 5.0, clock=clock)
    held = deque(admission.admit(100, clock.now + 120.0) for _ in range(16))
    clock.now += frozen
    refused = Counter[bool]()
    for step in range(3_000):
        clock.now += 0.1
        held.popleft().release(succeeded=True)
        for _ in range(16 - len(held)):
            try:
                held.append(admission.admit(100, clock.now + 120.0))
                refused[step < 1_500] += 0
            except Overloaded:
                refused[step < 1_500] += 1
        assert len(held) > 5
    assert not refused[False]


def test_a_refusal_names_the_share_of_the_caller_or_the_full_queue():
    admission = Admission(Backlog(1_000))
    with admission.admit(500, caller="hog"):
        with pytest.raises(Overloaded) as own:
            admission.admit(300, caller="hog")
        with admission.admit(300, caller="polite"), pytest.raises(Overloaded) as full:
            admission.admit(300, caller="third")
    assert (own.value.reason, full.value.reason) == ("caller", "queue")


@dataclass
class Outcome:
    """Counts of a simulation. Times are in seconds."""

    retries: int = 0
    retries_admitted: int = 0
    served: int = 0
    longest_retry_after: float = 0.0
    longest_wait: float = 0.0


def simulate_overload(
    attempts: int,
    retrying: float,
    callers: int = 1,
    rate: float = 200.0,
    api: float = 0.0,
    device: float = 0.01,
) -> Outcome:
    """Simulates a server that takes `api` seconds of its API process and then `device` seconds of
    its worker for a request of 10 tokens, and receives `rate` attempts per second. A rejected
    request is retried after its Retry-After with probability `retrying`. A retry takes the place of
    a new request."""
    clock, rng, price = Clock(), random.Random(1), device / 10
    admission = Admission(
        Backlog(1_000_000, prices=lambda: (price, price), workers=lambda: 1), 5.0, clock
    )
    idle_from = [0.0, 0.0]  # of the API process and the worker
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
            stack.enter_context(admission.admit(10, key=key, caller=f"caller {key % callers}"))
        except Overloaded as rejection:
            outcome.longest_retry_after = max(outcome.longest_retry_after, rejection.retry_after)
            if retry or rng.random() < retrying:
                heapq.heappush(due, (now + rejection.retry_after + rng.random() * 0.2, key))
            continue
        outcome.retries_admitted += retry
        idle_from[0] = max(idle_from[0], now) + api
        idle_from[1] = max(idle_from) + device
        outcome.longest_wait = max(outcome.longest_wait, idle_from[1] - now)
        outcome.served += 1
        running.append((idle_from[1], stack))
    return outcome


@pytest.mark.parametrize("load", [2, 4])
@pytest.mark.parametrize("retrying", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("callers", [1, 1_000])
def test_a_retry_after_its_retry_after_is_admitted(load, retrying, callers):
    outcome = simulate_overload(load * 6_000, retrying, callers, rate=load * 100.0)  # one minute
    assert outcome.retries > 300
    assert outcome.retries_admitted >= 0.85 * outcome.retries
    assert outcome.served >= 0.98 * 6_000, "the server was idle at times"
    assert outcome.longest_wait <= 6.0
    assert outcome.longest_retry_after <= 120


@pytest.mark.parametrize(
    ("api", "device"), [(0.01, 0.01), (0.01, 0.001), (0.001, 0.01), (0.01, 1e-5)]
)
@pytest.mark.parametrize("load", [2, 4])
def test_what_waits_is_bounded_in_seconds_whether_api_process_or_worker_is_slower(
    load, api, device
):
    capacity = 1 / max(api, device)
    outcome = simulate_overload(int(load * capacity * 30), 0.5, 20, load * capacity, api, device)
    assert outcome.longest_wait <= 7.0
    assert outcome.served >= 0.95 * capacity * 30
    assert outcome.retries_admitted >= 0.8 * outcome.retries


def test_documents_leave_room_for_short_requests():
    admission = Admission(Backlog(1_000))
    with admission.admit(900, kind="document"):
        with pytest.raises(Overloaded), admission.admit(10, kind="document"):
            pass
        with (
            admission.admit(100),
            admission.admit(150),
            pytest.raises(Overloaded),
            admission.admit(10),
        ):
            pass


def test_the_deadline_of_a_short_request_ignores_documents():
    """Documents are processed after short requests, so they do not delay them."""
    clock = Clock()
    admission = Admission(Backlog(10_000), 5.0, clock)
    with admission.admit(1_000, kind="document"):
        clock.now += 100.0
    with admission.admit(5_000, kind="document"):
        with admission.admit(10, clock.now + 1):
            pass
        with pytest.raises(Overloaded), admission.admit(10, clock.now + 1, kind="document"):
            pass


@pytest.mark.parametrize("kind", ["short", "document"])
def test_one_caller_leaves_room_for_others(kind):
    admission = Admission(Backlog(1_000))
    permits = [permit for caller in "abcd" for permit in fill(admission, caller=caller, kind=kind)]
    held = admission.accepted
    for permit in [*permits, admission.admit(1, caller="e", kind=kind)]:
        permit.release()
    room = 750 if kind == "document" else 1_000
    assert 0.98 * room < held < room
    assert admission.accepted == 0


def test_a_lone_caller_may_hold_three_quarters_and_a_weight_multiplies_its_share():
    for weight, held in ((1.0, 750), (3.0, 900)):
        assert len(fill(Admission(Backlog(1_000)), caller="a", weight=weight)) == held


@pytest.mark.parametrize(("weight", "shares"), [(1.0, (300, 300)), (2.0, (210, 420))])
def test_shares_are_in_the_ratio_of_the_weights_in_the_end(weight, shares):
    admission = Admission(Backlog(700))
    first, second = fill(admission, caller="first"), list[Permit]()
    for _ in range(1_000):  # the one that was first finishes its work and comes back each time
        second += fill(admission, caller="second", weight=weight)
        first.pop(0).release(succeeded=True)
        first += fill(admission, caller="first")
    assert (len(first), len(second)) == shares


def test_the_work_ahead_of_a_caller_is_less_with_more_weight():
    """Both hold 200 units of a server that does 10 units per second, so the heavier caller waits 25
    seconds."""
    clock = Clock()
    admission = Admission(Backlog(1_000), clock=clock)
    with admission.admit(1_000):
        clock.now += 100.0
    with admission.admit(200, caller="light"), admission.admit(200, caller="heavy", weight=4.0):
        for caller, weight, wait in (("light", 1.0, 40.0), ("heavy", 4.0, 25.0), ("new", 1.0, 0.0)):
            error, text = (Overloaded, "longer than the time") if wait else (TimeoutError, None)
            with pytest.raises(error, match=text):
                admission.admit(1, clock.now + wait - 0.1, caller=caller, weight=weight)
            admission.admit(1, clock.now + wait + 0.1, caller=caller, weight=weight).release()


def test_retry_after_is_at_most_two_minutes():
    clock = Clock()
    admission = Admission(Backlog(100), clock=clock)
    with admission.admit(1):
        clock.now += 60.0
    with admission.admit(1_000):
        for options in ({}, {"key": 1}, {"deadline": clock.now}, {"kind": "document"}):
            with (
                pytest.raises(Overloaded) as caught,
                admission.admit(1_000, **options),
                admission.admit(90, **options),
            ):
                pass
            assert caught.value.retry_after <= 120
    assert (
        Overloaded("The server is busy.", 54_651).retry_after
        == Unavailable("No worker.", 10**9).retry_after
        == 120
    )


def test_documents_are_counted_in_bytes_and_share_their_room():
    """As `server.documents.service` does: a document costs its bytes, and at least its part of the
    number."""
    admission = Admission(Backlog(6_400), caller_share=1.0, message="Too many documents.")
    with ExitStack() as stack:
        held = []
        for caller in "abcdef":
            before = admission.requests
            with suppress(Overloaded):
                while True:
                    stack.enter_context(admission.admit(100, caller=caller))
            held.append(admission.requests - before)
        assert held == [32, 16, 8, 4, 2, 1]
        stack.enter_context(admission.admit(100, caller="g"))
        with pytest.raises(Overloaded, match="Too many documents"):
            admission.admit(100, caller="h")
    # a single document may have any size
    with admission.admit(64_000, caller="a"), pytest.raises(Overloaded):
        admission.admit(100, caller="b")


@pytest.mark.parametrize("kind", ["short", "document"])
def test_looks_and_translations_leave_each_other_their_room(kind):
    admission = Admission(Backlog(1_000, 500))
    permits = fill(admission, kind=kind) + fill(admission, kind="look")
    assert admission.queues["look"].units == 500
    assert admission.accepted == (1_000 if kind == "short" else 750)
    assert admission.requests == admission.accepted, "looks are no translations"
    for permit in permits:
        permit.release()
    assert len(fill(admission, kind="look", caller="a")) == 250, "a lone caller fills half"
    admission.admit(1, kind="look", caller="b")


def test_the_doors_of_several_processes_share_one_limit_without_asking():
    """Whatever they accept and however late they renew: not more in all than the limit, nor of one
    caller than its share."""
    rng, clock, renewals = random.Random(3), Clock(), 0
    backlog = Backlog(1_000)
    renew = backlog.renew

    def counted(door, loads):
        nonlocal renewals
        renewals += 1
        return renew(door, loads)

    backlog.renew = counted
    doors = [Admission(backlog, clock=clock) for _ in range(3)]
    permits: list[Permit] = []
    most = 0.0
    for _ in range(20_000):
        clock.now += 0.001
        with suppress(Overloaded):
            permits.append(
                rng.choice(doors[: rng.randint(1, 3)]).admit(
                    rng.randint(1, 9), caller=rng.choice("abcd")
                )
            )
        if permits and rng.random() < 0.48:
            permits.pop(rng.randrange(len(permits))).release(succeeded=True)
        held = Counter[str]()
        for door in doors:
            for caller, work in door.queues["short"].callers.items():
                held[caller] += work.units
        assert sum(held.values()) <= 1_000
        assert max(held.values(), default=0) <= 750
        most = max(most, sum(held.values()))
    assert most > 600, "the limit is used"
    assert renewals <= 3 + 3 * 20 / 0.1, "requests asked for leases"


@pytest.mark.parametrize("returning", [False, True])
@pytest.mark.parametrize("size", [30, 300, 900])
@pytest.mark.parametrize("kind", ["short", "document", "look"])
def test_a_polite_caller_is_never_refused_beside_hogs(kind, size, returning):
    """Hogs send more whenever there is room, and those that return do so when they were told. The
    polite caller has one small request at a time."""
    rng, clock = random.Random(5), Clock()
    door = Admission(Backlog(4_000, 4_000, workers=lambda: 1), 5.0, clock)
    running: deque[Permit] = deque()
    due: list[tuple[float, int]] = []
    polite: Permit | None = None
    for number in range(1_500):
        clock.now += rng.random()
        for hog in range(3):
            key = heapq.heappop(due)[1] if due and due[0][0] <= clock.now else 3 * number + hog
            try:
                cost = size * rng.uniform(0.5, 1.5)
                running.append(
                    door.admit(cost, caller=f"hog {hog}", kind=kind, key=key if returning else None)
                )
            except Overloaded as error:
                heapq.heappush(due, (clock.now + error.retry_after, key))
        if polite is not None:
            polite.release(succeeded=True)
        polite = door.admit(1.0, caller="polite", kind=kind)
        if running and rng.random() < 0.3:
            running.popleft().release(succeeded=True)


@pytest.mark.parametrize("price", [1e-5, 4e-4, 1e-3, 4e-3])
@pytest.mark.parametrize("tokens", [10, 2_000])
def test_the_largest_short_requests_leave_room_for_others_of_the_same_caller(tokens, price):
    """Whatever the worker's speed and the measured one: as many requests of 2,000 tokens as find
    room, up to three, and beside them 32 single sentences of beam 4 and one with markup."""
    clock = Clock()
    door = Admission(Backlog(200_000, 16_000, lambda: (price, price / 2), lambda: 1), 5.0, clock)
    for _ in range(100):
        with door.admit(tokens, caller="address"):
            clock.now += tokens * max(price, 1e-3)
    permits: list[Permit] = []
    with suppress(Overloaded):
        while len(permits) < 3:
            permits.append(door.admit(2_000, caller="address"))
    assert len(permits) == 3 or price > 4e-4
    permits += [door.admit(cost, caller="address") for cost in (*[76] * 32, 120)]


@pytest.mark.parametrize("price", [1e-4, 1e-3, 7e-3])
def test_the_first_answers_of_a_batch_refuse_nobody(price):
    """The first of a batch seems to have taken the time of all: the speed is not known by it."""
    clock = Clock()
    door = Admission(Backlog(200_000, 16_000, lambda: (price, price / 2), lambda: 1), 5.0, clock)
    door.admit(1_991, caller="address")
    held = [door.admit(15, clock.now + 60, caller="address") for _ in range(32)]
    for _ in range(20):
        clock.now += 32 * 15 * price
        for _ in range(32):
            held.pop(0).release(succeeded=True)
            held.append(door.admit(15, clock.now + 60, caller="address"))


@pytest.mark.parametrize("limited", [0.05, 1.0])
@pytest.mark.parametrize("caller", ["hog", "polite"])
def test_prices_that_fall_refuse_nobody(caller, limited):
    """As after a start, before the worker has measured, and beside long sentences: what was
    accepted before takes no more of the room than at the new price. `limited` is the part of the
    time that the device works, where the API process is slower."""
    rng, clock, price = random.Random(7), Clock(), 3e-4
    door = Admission(Backlog(200_000, 16_000, lambda: (price, price / 2), lambda: 1), 5.0, clock)
    held = [door.admit(2_000, caller="hog") for _ in range(3)]
    for _ in range(500):
        price = 10 ** rng.uniform(-5, -3.6)
        clock.now += 2_000 * price / limited
        held.pop(0).release(succeeded=True)
        with ExitStack() as stack:
            for _ in range(32):
                stack.enter_context(door.admit(10, caller=caller))
        held.append(door.admit(2_000, caller="hog"))
