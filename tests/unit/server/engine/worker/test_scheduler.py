"""Invariants of admission, whatever is asked in whatever order. No torch, no processes, no clock."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from model.search.options import DecodingOptions
from server.engine.ipc.messages import AttentionJob, TranslateJob
from server.engine.worker.scheduler import Scheduler, Turn
from server.engine.worker.sequence import Look, Sequence

SLOTS, TOKENS = 8, 64


def job(
    id: int, length: int = 5, beam: int = 1, priority: int = 0, client: str = "", timeout: float | None = None,
    alone: bool = False,
) -> TranslateJob:  # fmt: skip
    options = DecodingOptions(beam_size=beam)
    return TranslateJob(id, "m", (4,) * length, options, priority, client, timeout, alone=alone)


def scheduler(slots: int = SLOTS, tokens: int = TOKENS) -> Scheduler:
    made = Scheduler(tokens, 4)
    made.open("m", slots)
    return made


def running(made: Scheduler) -> list[Sequence]:
    return made.running


def check(made: Scheduler, turn: Turn) -> None:
    """What must hold after every decision."""
    held = [slot for sequence in running(made) for slot in sequence.slots]
    assert len(held) == len(set(held)) == made.slots[0] <= made.slots[1]
    assert all(len(sequence.slots) == sequence.width for sequence in running(made))
    for lane, newcomers in turn.prefill:
        padded = len(newcomers) * max(sequence.length for sequence in newcomers)
        assert padded <= TOKENS or len(newcomers) == 1
        assert all(sequence.id in lane.running for sequence in newcomers)
    isolated = [sequence for sequence in running(made) if sequence.alone]
    assert not isolated or len(running(made)) == 1
    if turn.look is not None and turn.look.alone:
        assert not running(made)


jobs = st.builds(
    lambda length, beam, priority, client, timeout, alone: (length, beam, priority, client, timeout, alone),
    st.integers(1, 100),
    st.integers(1, SLOTS),
    st.integers(0, 1),
    st.sampled_from("abc"),
    st.none() | st.floats(0, 50),
    st.integers(0, 9).map(lambda draw: draw == 0),
)
events = st.lists(st.one_of(jobs, st.tuples(st.just("cancel"), st.integers(0, 60)), st.just("look")), max_size=60)


@settings(max_examples=200, deadline=None)
@given(events, st.randoms(use_true_random=False))
def test_everybody_is_answered_once_and_slots_are_never_shared(
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
            if event == "look":
                if made.look(AttentionJob(id, "m", (1,), (2,)), now):
                    accepted.add(id)
            elif event[0] == "cancel":
                gone = made.finish(int(str(event[1])))
                over += [] if gone is None else [gone.id]
            else:
                length, beam, priority, client, timeout, alone = event
                made.add(job(id, length, beam, priority, client, timeout, alone), now)  # type: ignore[arg-type]
                accepted.add(id)
        del pending[:5]
        turn = made.schedule(now)
        check(made, turn)
        over += [expired.id for expired in turn.expired]
        assert all(expired.deadline is not None and expired.deadline <= now for expired in turn.expired)
        assert turn.expired or turn.decode or turn.look or not len(made), "a turn that helps nobody"
        if turn.look is not None:
            assert made.finish(turn.look.id) is not None
            made.looked(now, 0.5)
            over.append(turn.look.id)
        for sequence in list(running(made)):
            left.setdefault(sequence.id, sequence.length % 7 + 1)
            left[sequence.id] -= 1
            if not left[sequence.id]:
                assert made.finish(sequence.id) is sequence
                over.append(sequence.id)
        now += 1.0
    assert sorted(over) == sorted(accepted)
    assert made.slots == (0, SLOTS)


def drain(made: Scheduler, steps: int = 3) -> list[int]:
    """Ids in the order of admission; everybody runs for `steps` turns."""
    order: list[int] = []
    age: dict[int, int] = {}
    now = 0.0
    while len(made):
        turn = made.schedule(now)
        now += 1
        order += [sequence.id for _, newcomers in turn.prefill for sequence in newcomers]
        for sequence in list(running(made)):
            age[sequence.id] = age.get(sequence.id, 0) + 1
            if age[sequence.id] == steps:
                made.finish(sequence.id)
    return order


def test_interactive_goes_first_and_documents_are_not_starved() -> None:
    made = scheduler()
    for id in range(100):
        made.add(job(id, priority=1, client="document"), 0)
    for id in range(100, 400):
        made.add(job(id, client=str(id)), 0)
    order = drain(made)
    places = {id: place for place, id in enumerate(order)}
    documents = [places[id] for id in range(100)]
    assert sorted(documents)[0] < 300, "a document waited for every interactive job"
    assert sum(place < 300 for place in documents) < 60, "documents took the place of interactive jobs"


def test_a_caller_with_much_does_not_keep_others_waiting() -> None:
    made = scheduler()
    for id in range(500):
        made.add(job(id, client="greedy"), 0)
    for id in range(500, 510):
        made.add(job(id, client="modest"), 0)
    order = drain(made)
    assert max(order.index(id) for id in range(500, 510)) < 60


def test_similar_lengths_are_encoded_together() -> None:
    made = Scheduler(10_000, 4)
    made.open("m", 512)
    lengths = [3 + 7 * (id % 13) for id in range(512)]
    for id, length in enumerate(lengths):
        made.add(job(id, length), 0)
    real = padded = 0
    admitted = 0
    while admitted < 512:
        for _, newcomers in made.schedule(0).prefill:
            admitted += len(newcomers)
            real += sum(sequence.length for sequence in newcomers)
            padded += len(newcomers) * max(sequence.length for sequence in newcomers)
    assert padded <= 1.3 * real


def test_a_wide_beam_gets_its_slots_in_the_end() -> None:
    made = scheduler()
    for id in range(50):
        made.add(job(id), 0)
    made.add(job(50, beam=SLOTS), 0)
    for id in range(51, 200):
        made.add(job(id), 0)
    assert drain(made).index(50) <= 51 + SLOTS


def test_a_cancelled_sequence_frees_its_slots_at_once() -> None:
    made = scheduler()
    made.add(job(1, beam=SLOTS), 0)
    made.schedule(0)
    made.add(job(2, beam=SLOTS), 0)
    assert not made.schedule(0).prefill
    made.finish(1)
    turn = made.schedule(0)
    assert [sequence.id for _, newcomers in turn.prefill for sequence in newcomers] == [2]


def test_lookers_leave_translators_their_share() -> None:
    made = scheduler()
    made.add(job(1), 0)
    for id in range(2, 5):
        assert made.look(AttentionJob(id, "m", (1,), (2,)), 0)
    first = made.schedule(10.0)
    assert isinstance(first.look, Look)
    made.finish(first.look.id)
    made.looked(11.0, 1.0)
    assert made.schedule(12.0).look is None
    assert made.schedule(14.5).look is not None


def test_lookers_have_a_bound_of_their_own() -> None:
    made = scheduler()
    assert [made.look(AttentionJob(id, "m", (1,), (2,)), 0) for id in range(5)] == [True] * 4 + [False]


def test_a_replaced_model_keeps_its_own_and_a_faster_engine_takes_those_who_wait() -> None:
    made = scheduler(slots=1)
    old = made.lane("m")
    made.add(job(1), 0)
    made.add(job(2), 0)
    made.schedule(0)
    new = made.open("m", 1)
    made.add(job(3), 0)
    assert old is not None and not made.retire()
    turn = made.schedule(0)
    assert [lane for lane, _ in turn.prefill] == [new]
    made.finish(1)
    assert [lane for lane, _ in made.schedule(0).prefill] == [old]
    made.finish(2)
    assert made.retire() == [old]
    made.add(job(4), 0)
    faster = made.open("m", 1, same=True)
    assert [(lane, [s.id for s in group]) for lane, group in made.schedule(0).prefill] == [(faster, [4])]
    made.finish(3)
    assert made.retire() == [new]


def test_running_sequences_do_not_stand_still_for_a_long_prefill() -> None:
    made = Scheduler(1000, 4)
    made.open("m", 64)
    for id in range(40):
        made.add(job(id, 5), 0)
    made.schedule(0)
    for id in range(40, 100):
        made.add(job(id, 50), 0)
    turn = made.schedule(0)
    assert 0 < sum(sequence.length for _, newcomers in turn.prefill for sequence in newcomers) <= 250
    for _ in range(30):
        made.prefilled(100, 0.05)  # a slow device: 2,000 tokens a second, a tenth of a second for a step
        made.stepped(0.1)
    for _ in range(5):
        turn = made.schedule(0)
        assert sum(sequence.length for _, newcomers in turn.prefill for sequence in newcomers) <= 600
