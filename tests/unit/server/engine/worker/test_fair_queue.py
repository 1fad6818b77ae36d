"""Shares of the clients while all of them wait."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from model.search.options import DecodingOptions, Hypothesis
from server.engine.ipc.messages import Job, Look
from server.engine.worker.fair_queue import ModelQueue, StepTime
from server.engine.worker.scheduler import Scheduler
from server.engine.worker.sequence import LOOK, SHORT

LONGEST = 40
WEIGHTS = {"light": 1.0, "heavy": 2.0}


def jobs(priority: int = 0, shortest: int = 1) -> list[Job]:
    """Returns 400 sentences of each client with `shortest` to LONGEST tokens."""
    draw, clients = random.Random(7), sorted(WEIGHTS) * 400
    sources = [(4,) * draw.randint(shortest, LONGEST) for _ in clients]
    return [
        Job(id, "m", source, DecodingOptions(), priority, client, WEIGHTS[client])
        for id, (client, source) in enumerate(zip(clients, sources, strict=True))
    ]


def test_a_client_of_weight_2_gets_twice_the_seconds_at_any_time() -> None:
    for priority in (0, 1):
        made, served = Scheduler(4096), Counter[str]()
        made.queues["m"] = ModelQueue(1)
        for job in jobs(priority):
            made.add(job, 0.0)
        for _ in range(500):
            [[sequence]] = made.schedule()
            made.record_step([sequence], float(sequence.length), 1)
            made.finish(sequence.id)
            served[sequence.job.client] += sequence.length
            assert abs(served["heavy"] / 2 - served["light"]) <= LONGEST / 2 + LONGEST


def test_the_worker_reports_what_a_token_takes_lately() -> None:
    made = Scheduler(4096)
    made.queues["m"] = ModelQueue(4)
    for seconds in (0.001, 0.1):
        for id in range(200):
            target = DecodingOptions(target=(2,) * 5)
            made.add(Job(id, "m", (4,) * 10, DecodingOptions(beam_size=2)), 0.0)
            made.add(Job(1000 + id, "m", (4,) * 5, target, look=Look()), 0.0)
            while made.jobs:
                [[sequence]] = made.schedule()
                if sequence.kind.look:
                    made.charge([sequence], [1], 5 * seconds)
                else:
                    made.record_step([sequence], 20 * seconds, 1)
                    sequence.hypotheses = (Hypothesis((), (), 0.0, "stop"),)
                made.finish(sequence.id)
        prices = made.token_seconds[SHORT], made.token_seconds[LOOK]
        assert prices == pytest.approx((seconds, seconds / 2), rel=0.01)


def test_weights_hold_within_one_batch_too() -> None:
    made = Scheduler(4096)
    made.queues["m"] = ModelQueue(30)
    for job in jobs(shortest=LONGEST):
        made.add(job, 0.0)
    while made.queues["m"].free:
        made.schedule()
    assert Counter(sequence.job.client for sequence in made.running) == {"heavy": 20, "light": 10}


@pytest.mark.parametrize("slots", [1, 8, 64, 512])
@pytest.mark.parametrize("fixed_rows", [0, 1, 5, 16, 100, 10_000])
def test_the_rows_that_cost_as_much_as_a_step_are_measured(slots: int, fixed_rows: int) -> None:
    """The measured line is that of the steps, within its bounds, whatever the order of the rows and
    some noise."""
    draw, step_time = random.Random(slots), StepTime(slots)
    for _ in range(300):
        rows = draw.randint(1, slots)
        step_time.record(rows, 0.001 * (fixed_rows + rows) * draw.uniform(0.99, 1.01))
    expected = min(slots / 2, max(slots / 32, fixed_rows if slots > 1 else 1 / 16))
    assert step_time.fixed_rows == pytest.approx(expected, rel=0.5, abs=0.6)
