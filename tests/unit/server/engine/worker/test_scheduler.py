"""Invariants of the scheduler for any order of jobs. No torch, no processes, no clock."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.analysis.types import ALIGNMENT, EVERYTHING, MapChoice
from model.search.options import DecodingOptions
from server.engine.ipc.messages import Job, Look
from server.engine.worker.scheduler import FairClock, ModelQueue, Scheduler
from server.engine.worker.sequence import Sequence

SLOTS, TOKENS = 8, 64
MODELS = ("m", "n")


def job(
    id: int,
    length: int = 5,
    beam: int = 1,
    priority: int = 0,
    client: str = "",
    alone: bool = False,
) -> Job:
    options = DecodingOptions(beam_size=beam)
    return Job(id, "m", (4,) * length, options, priority, client, alone=alone)


def scheduler(slots: int = SLOTS, tokens: int = TOKENS) -> Scheduler:
    made = Scheduler(tokens)
    for model in MODELS:
        made.queues[model] = ModelQueue(slots)
    return made


def run(made: Scheduler, batches: list[list[Sequence]], look_seconds: float = 0.5) -> float:
    """Records half a second of each batch, and a quarter of those that join it. Returns the sum."""
    seconds = 0.0
    for batch in batches:
        newcomers = [sequence for sequence in batch if not sequence.admitted]
        for sequence in newcomers:
            sequence.admitted = 1.0
        if batch[0].kind.look:
            made.charge(batch, [look.length for look in batch], look_seconds)
            seconds += look_seconds
            continue
        if newcomers:
            made.record_prefill(newcomers, 0.25)
        made.record_step(batch, 0.5, 1)
        seconds += 0.5 + 0.25 * bool(newcomers)
    return seconds


def check(made: Scheduler, batches: list[list[Sequence]]) -> None:
    """Invariants of every turn."""
    for model in MODELS:
        held = [
            slot
            for sequence in made.running
            if sequence.job.model == model
            for slot in sequence.slots
        ]
        assert len(held) == len(set(held)) <= SLOTS
    assert all(
        sequence.kind.look or len(sequence.slots) == sequence.width for sequence in made.running
    )
    for batch in batches:
        newcomers = [sequence for sequence in batch if not sequence.admitted]
        padded = len(newcomers) * max([sequence.length for sequence in newcomers], default=0)
        assert padded <= TOKENS or len(newcomers) == 1 or batch[0].kind.look
        assert len({(sequence.job.model, sequence.kind) for sequence in batch}) == 1
        assert {*batch} <= {*made.running}
    assert len({batch[0].kind for batch in batches}) <= 1
    isolated = [sequence for sequence in made.running if sequence.alone]
    assert not isolated or batches == [made.running] == [isolated]


jobs = st.builds(
    lambda length, beam, priority, client, alone: (length, beam, priority, client, alone),
    st.integers(1, 100),
    st.integers(1, SLOTS),
    st.integers(0, 1),
    st.sampled_from("abc"),
    st.integers(0, 9).map(lambda draw: draw == 0),
)
failing = st.tuples(st.just("fail"), st.integers(0, 60))
events = st.lists(
    st.one_of(
        jobs,
        st.tuples(st.just("cancel"), st.integers(0, 60)),
        failing,
        st.sampled_from(("look", "late")),
    ),
    max_size=60,
)


def look(
    id: int, client: str = "", choice: MapChoice = ALIGNMENT, priority: int = 0, model: str = "m"
) -> Job:
    return Job(id, model, (1,), DecodingOptions(target=(2,)), priority, client, look=Look(choice))


@settings(max_examples=200, deadline=None)
@given(events)
def test_every_job_is_answered_once_and_every_second_is_charged_once(
    asked: list[tuple[object, ...] | str],
) -> None:
    made = scheduler()
    accepted: set[int] = set()
    ended: list[Sequence] = []
    left: dict[int, int] = {}
    seconds = 0.0
    pending = list(enumerate(asked))
    while pending or made.jobs:
        for id, event in pending[:5]:
            if event in ("look", "late"):
                made.add(look(id, priority=int(event == "late"), model=MODELS[id % 2]), 0.0)
                accepted.add(id)
            elif event[0] == "cancel":
                gone = made.finish(int(str(event[1])))
                ended += [] if gone is None else [gone]
            elif event[0] == "fail":
                # A step that fails: all that ran beside are started again, each alone.
                for sequence in made.running:
                    if sequence.alone:
                        assert made.finish(sequence.id) is sequence
                        ended.append(sequence)
                    else:
                        made.restart(sequence)
            else:
                length, beam, priority, client, alone = event
                one = job(id, length, beam, priority, client, alone)  # type: ignore[arg-type]
                made.add(dataclasses.replace(one, model=MODELS[id % 2]), 0.0)
                accepted.add(id)
        del pending[:5]
        batches = made.schedule()
        check(made, batches)
        assert batches or not made.jobs, "a turn that advances no job"
        seconds += run(made, batches)
        for sequence in [sequence for batch in batches for sequence in batch]:
            if sequence.kind.look:
                assert made.finish(sequence.id) is sequence
                ended.append(sequence)
                continue
            left.setdefault(sequence.id, sequence.length % 7 + 1)
            left[sequence.id] -= 1
            if not left[sequence.id]:
                assert made.finish(sequence.id) is sequence
                ended.append(sequence)
    assert sorted(sequence.id for sequence in ended) == sorted(accepted)
    assert all(len(made.queues[model].free) == SLOTS for model in MODELS)
    assert not any(made.queues[model].flows for model in MODELS)
    assert sum(sequence.seconds for sequence in ended) == pytest.approx(seconds)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, SLOTS), st.sampled_from((1.0, 2.0))),
        min_size=2,
        max_size=6,
    )
)
def test_beside_clients_with_less_the_others_at_most_double_the_step(
    asked: list[tuple[int, int, float]],
) -> None:
    """However many sequences a client has and however wide they are: the rows of those that do not
    get what they need cost as much as one step of the others, or are as many as others have, or a
    sixteenth of the slots, or are those of one sequence."""
    made = Scheduler(10_000)
    made.queues["m"] = ModelQueue(64)
    ids = iter(range(10_000))
    for client, (number, beam, weight) in enumerate(asked):
        for _ in range(number):
            made.add(
                dataclasses.replace(job(next(ids), 5, beam, client=str(client)), weight=weight), 0.0
            )
    needed = {str(client): number * beam for client, (number, beam, _) in enumerate(asked)}
    weights = {str(client): weight for client, (*_, weight) in enumerate(asked)}
    least = min(needed, key=lambda client: needed[client] / weights[client])
    for _ in range(20):
        rows, largest = Counter[str](), Counter[str]()
        for batch in made.schedule():
            made.record_step(batch, 0.001 + 0.00025 * sum(sequence.width for sequence in batch), 1)
            for sequence in batch:
                rows[sequence.job.client] += sequence.width
                largest[sequence.job.client] = sequence.width
        # A sequence is not divided: the others may have one more than their share.
        widest = max(beam for client, (_, beam, _) in enumerate(asked) if str(client) != least)
        if needed[least] + widest <= 64 * weights[least] / sum(weights.values()):
            assert rows[least] == needed[least], "the client with the fewest rows waits"
            limited = {client for client in rows if largest[client] < rows[client] < needed[client]}
            met = {client: count for client, count in rows.items() if client not in limited}
            as_others = max(4, *(met[client] / weights[client] for client in met))
            further = sum(
                rows[client] for client in limited if rows[client] > as_others * weights[client]
            )
            assert further <= sum(met.values()) + made.queues["m"].step_time.fixed_rows


@pytest.mark.parametrize("needed", [[1, 4, 4, 4, 4, 4, 4, 4], [4] * 8, [2, 3, 4] * 5])
def test_callers_with_a_few_sentences_each_share_one_batch(needed: list[int]) -> None:
    made, ids = scheduler(64, 10_000), iter(range(1_000))
    for client, number in enumerate(needed):
        for _ in range(number):
            made.add(job(next(ids), client=str(client)), 0.0)
    [batch] = made.schedule()
    assert len(batch) == sum(needed)


def test_a_full_model_does_not_delay_another_model_of_the_same_client() -> None:
    made = scheduler()
    for id in range(50):
        made.add(job(id, beam=SLOTS), 0.0)
    made.schedule()
    made.add(dataclasses.replace(job(99), model=MODELS[1]), 0.0)
    assert [99] in [[sequence.id for sequence in batch] for batch in made.schedule()]


def test_a_target_that_is_only_scored_is_the_next_of_its_client() -> None:
    made = scheduler()
    for id in range(9):
        made.add(job(id, beam=SLOTS), 0.0)
    [[first]] = made.schedule()
    made.finish(first.id)
    other = job(9, beam=SLOTS, client="other")
    scored = dataclasses.replace(job(10), options=DecodingOptions(target=(4,)))
    made.add(other, 0.0)
    made.add(scored, 0.0)
    served = []
    for _ in range(3):
        [[sequence]] = made.schedule()
        made.finish(sequence.id)
        served.append(sequence.id)
    assert served == [9, 10, 1]


def test_looks_leave_time_for_translations() -> None:
    """Beside endless sentences of the same client, looks have a quarter of the time, however long
    one takes."""
    for seconds in (0.001, 0.01, 0.1):
        made = scheduler()
        for id in range(1, 1000):
            made.add(look(id) if id % 2 else job(id), 0.0)
        spent = Counter[bool]()
        while sum(spent.values()) < 200 * seconds:
            for batch in made.schedule():
                if batch[0].kind.look:
                    made.charge(batch, [1] * len(batch), seconds)
                    spent[True] += seconds  # type: ignore[assignment]
                    made.finish(batch[0].id)
                else:
                    made.record_step(batch, 0.001, 1)
                    spent[False] += 0.001  # type: ignore[assignment]
        assert 0.2 < spent[True] / sum(spent.values()) < 0.3


def test_looks_that_want_the_same_run_together_in_fair_order() -> None:
    """A pass has looks of one model that want the same; a hog has no more of it than its share."""
    made = scheduler()
    for id in range(1, 101):
        made.add(look(id, client="hog"), 0.0)
    made.add(look(200, client="polite"), 0.0)
    made.add(look(201, client="polite"), 0.0)
    made.add(look(300, client="third", choice=EVERYTHING), 0.0)
    [group] = made.schedule()
    assert 200 in [request.id for request in group[:2]]
    wanted = [request.job.look for request in group]
    assert len({*wanted}) == 1 and len(group) <= 16
    made.finish(group[0].id)  # cancelled: the others go on
    assert made.schedule() == [group[1:]]


@pytest.mark.parametrize("priority", [0, 1])
@pytest.mark.parametrize("beside", [False, True])
def test_the_looks_of_one_client_do_not_wait_behind_those_of_another(
    priority: int, beside: bool
) -> None:
    """Whatever one client asks for, another one's look is among the next few, by its share of the
    seconds."""
    made = scheduler()
    for id in range(1, 1001):
        made.add(look(id, "hog", EVERYTHING, priority), 0.0)
        if beside:
            made.add(job(10_000 + id, client="hog", priority=priority), 0.0)
    for number in range(20):
        polite = 2000 + number
        made.add(look(polite, "polite", EVERYTHING), 0.0)
        turns, answered = 0, False
        while not answered:
            turns += 1
            [batch] = made.schedule()
            if batch[0].kind.look:
                [request] = batch
                made.charge([request], [1], 0.01)
                made.finish(request.id)
                answered = request.id == polite
            else:
                made.record_step(batch, 0.01, 1)
        assert turns <= 6


def test_a_look_of_a_short_request_does_not_wait_for_documents() -> None:
    made = scheduler()
    made.add(job(1, priority=1), 0.0)
    for id in (2, 3):
        made.add(look(id, "hog", EVERYTHING, priority=1), 0.0)
    for _ in range(5):
        run(made, made.schedule(), look_seconds=1.0)
    made.add(look(4, client="polite"), 0.0)
    [batch] = made.schedule()
    assert [request.id for request in batch] == [4]


@pytest.mark.parametrize("asked", [look, job])
def test_documents_leave_time_for_a_short_request_that_may_come_again(
    asked: Callable[..., Job],
) -> None:
    """After a short request, turns of documents are as short as beside it until the device worked
    for a tenth of a second: a sentence with markup is a job and, a little later, a look."""
    made = scheduler(64, 10_000)
    for id in range(1000):
        made.add(asked(id, priority=1), 0.0)

    def newcomers() -> int:
        [batch] = made.schedule()
        seconds = [0.001 * sequence.length for sequence in batch]
        if not batch[0].kind.look:
            made.record_prefill(batch, sum(seconds))
        else:
            made.charge(batch, seconds, sum(seconds))
        for sequence in batch:
            made.finish(sequence.id)
        return len(batch)

    for _ in range(50):
        usual = newcomers()
    made.add(job(2000), 0.0)
    [[short]] = made.schedule()
    made.record_step([short], 0.001, 1)
    made.finish(short.id)
    turns = list(iter(newcomers, usual))
    assert usual >= 8 and turns and max(turns) == 1
    assert 0.1 <= 0.001 * sum(turns) * (5 if asked is job else 2) <= 0.11


def test_the_charge_of_a_client_is_forgotten_only_while_it_makes_no_difference() -> None:
    clock = FairClock()
    for client in range(20_000):
        clock.charge(client, 1.0)
        clock.now = max(clock.now, clock.used(client) - 0.5)
    assert len(clock._used) <= 5_000
    assert clock.used("new") == clock.used(0) < clock.now < clock.used(19_999)
