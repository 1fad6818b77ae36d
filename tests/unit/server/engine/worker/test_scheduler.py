"""Invariants of the scheduler for any order of jobs. No torch, no processes, no clock."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from model.analysis.types import ALIGNMENT, EVERYTHING, MapChoice
from model.search.options import DecodingOptions
from server.engine.ipc.messages import Job, Look
from server.engine.worker.scheduler import Scheduler, SchedulerOutput

SLOTS, TOKENS = 8, 64


def job(id: int, length: int = 5, beam: int = 1, priority: int = 0, client: str = "", alone: bool = False) -> Job:
    options = DecodingOptions(beam_size=beam)
    return Job(id, "m", (4,) * length, options, priority, client, alone=alone)


def scheduler(slots: int = SLOTS, tokens: int = TOKENS) -> Scheduler:
    made = Scheduler(tokens)
    made.open("m", slots)
    return made


def check(made: Scheduler, output: SchedulerOutput) -> None:
    """Invariants of every output."""
    held = [slot for sequence in made.running for slot in sequence.slots]
    assert len(held) == len(set(held)) == made.slots[0] <= made.slots[1]
    assert all(len(sequence.slots) == sequence.width for sequence in made.running)
    for queue, newcomers in output.prefill:
        padded = len(newcomers) * max(sequence.length for sequence in newcomers)
        assert padded <= TOKENS or len(newcomers) == 1
        assert all(sequence.id in queue.running for sequence in newcomers)
    isolated = [sequence for sequence in made.running if sequence.alone]
    assert not isolated or len(made.running) == 1
    if output.looks is not None and output.looks.requests[0].alone:
        assert not made.running


jobs = st.builds(
    lambda length, beam, priority, client, alone: (length, beam, priority, client, alone),
    st.integers(1, 100),
    st.integers(1, SLOTS),
    st.integers(0, 1),
    st.sampled_from("abc"),
    st.integers(0, 9).map(lambda draw: draw == 0),
)
events = st.lists(st.one_of(jobs, st.tuples(st.just("cancel"), st.integers(0, 60)), st.just("attend")), max_size=60)


def look(id: int, client: str = "", choice: MapChoice = ALIGNMENT) -> Job:
    return Job(id, "m", (1,), DecodingOptions(target=(2,)), client=client, look=Look(choice))


@settings(max_examples=200, deadline=None)
@given(events, st.randoms(use_true_random=False))
def test_every_job_is_answered_once_and_slots_are_never_shared(
    asked: list[tuple[object, ...] | str], random: object
) -> None:
    made = scheduler()
    accepted: set[int] = set()
    over: list[int] = []
    left: dict[int, int] = {}
    now = 0.0
    pending = list(enumerate(asked))
    while pending or len(made):
        for id, event in pending[:5]:
            if event == "attend":
                made.add_look(Job(id, "m", (1,), DecodingOptions(target=(2,)), look=Look()))
                accepted.add(id)
            elif event[0] == "cancel":
                gone = made.finish(int(str(event[1])))
                over += [] if gone is None else [gone.id]
            else:
                length, beam, priority, client, alone = event
                made.add(job(id, length, beam, priority, client, alone), now)  # type: ignore[arg-type]
                accepted.add(id)
        del pending[:5]
        output = made.schedule(now)
        check(made, output)
        assert output.decode or output.looks or not len(made), "an output that advances no job"
        if output.looks is not None:
            for request in list(output.looks.requests):
                assert made.finish(request.id) is not None
                made.record_looks([request], now, 0.5)
                over.append(request.id)
        for sequence in list(made.running):
            left.setdefault(sequence.id, sequence.length % 7 + 1)
            left[sequence.id] -= 1
            if not left[sequence.id]:
                assert made.finish(sequence.id) is sequence
                over.append(sequence.id)
        now += 1.0
    assert sorted(over) == sorted(accepted)
    assert made.slots == (0, SLOTS)


def test_a_target_that_is_only_scored_is_the_next_of_its_client() -> None:
    made = scheduler()
    for id in range(9):
        made.add(job(id, beam=SLOTS), 0.0)
    [(_, [first])] = made.schedule(0.0).prefill
    made.finish(first.id)
    other = job(9, beam=SLOTS, client="other")
    scored = dataclasses.replace(job(10), options=DecodingOptions(target=(4,)))
    made.add(other, 0.0)
    made.add(scored, 0.0)
    served = []
    for _ in range(3):
        [(_, [sequence])] = made.schedule(0.0).prefill
        made.finish(sequence.id)
        served.append(sequence.id)
    assert served == [9, 10, 1]


def test_attention_requests_leave_time_for_translations() -> None:
    made = scheduler()
    made.add(job(1), 0)
    for id in range(2, 5):
        made.add_look(Job(id, "m", (1,), DecodingOptions(target=(2,)), look=Look()))
    first = made.schedule(10.0)
    assert first.looks is not None
    [request] = first.looks.requests
    made.record_looks([request], 11.0, 1.0)
    assert made.schedule(12.0).looks is None
    assert made.schedule(14.5).looks is first.looks, "its next pass comes before the next request"
    made.finish(request.id)
    made.record_looks([request], 15.5, 1.0)
    assert made.schedule(16.0).looks is None
    assert made.schedule(19.0).looks is not None


def test_looks_that_want_the_same_run_together_in_fair_order() -> None:
    """A pass has looks of one model that want the same; a hog has no more of it than its share."""
    made = scheduler()
    for id in range(1, 101):
        made.add_look(look(id, client="hog"))
    made.add_look(look(200, client="polite"))
    made.add_look(look(201, client="polite"))
    made.add_look(look(300, client="third", choice=EVERYTHING))
    group = made.schedule(0.0).looks
    assert group is not None and 200 in [request.id for request in group.requests[:2]]
    wanted = [request.job.look for request in group.requests]
    assert len({*wanted}) == 1 and len(group.requests) <= 16
    made.finish(group.requests[0].id)  # cancelled: the others go on
    assert made.schedule(0.0).looks is group


def test_the_looks_of_one_client_do_not_wait_behind_those_of_another() -> None:
    """Whatever one client asks for, another one's look is among the next few, by its share of the seconds."""
    made = scheduler()
    for id in range(1, 1001):
        made.add_look(Job(id, "m", (1,), DecodingOptions(target=(2,)), client="hog", look=Look()))
    now = 0.0
    for number in range(20):
        polite = 2000 + number
        made.add_look(Job(polite, "m", (1,), DecodingOptions(target=(2,)), client="polite", look=Look()))
        order = []
        while polite not in order:
            group = made.schedule(now).looks
            assert group is not None
            [request] = group.requests
            now += 0.01
            made.finish(request.id)
            made.record_looks([request], now, 0.01)
            order.append(request.id)
        assert len(order) <= 2


def test_a_look_of_a_short_request_does_not_wait_for_documents() -> None:
    made = scheduler()
    made.add(job(1, priority=1), 0)
    for id in (2, 3):
        made.add_look(Job(id, "m", (1,), DecodingOptions(target=(2,)), priority=1, client="hog", look=Look()))
    output = made.schedule(10.0)
    assert output.looks is not None
    [first] = output.looks.requests
    made.finish(first.id)
    made.record_looks([first], 11.0, 1.0)
    assert made.schedule(11.1).looks is None  # documents have their share before looks of documents
    made.add_look(look(4, client="polite"))
    assert made.schedule(11.2).looks is not None
