"""Shares of the clients while all of them wait."""

from __future__ import annotations

import itertools
import random
from collections import Counter

from model.search.options import DecodingOptions
from server.engine.ipc.messages import Job
from server.engine.worker.fair_queue import FairQueue
from server.engine.worker.sequence import Sequence

LONGEST = 40
WEIGHTS = {"light": 1.0, "heavy": 2.0}


def waiting(slots: int, priority: int = 0, shortest: int = 1) -> FairQueue:
    """Returns a queue in which each client has 400 sequences with `shortest` to LONGEST tokens."""
    queue, draw = FairQueue("m", slots), random.Random(7)
    for id in range(800):
        client = "light" if id < 400 else "heavy"
        source = (4,) * draw.randint(shortest, LONGEST)
        job = Job(id, "m", source, DecodingOptions(), priority, client, WEIGHTS[client])
        queue.push(Sequence(job, 0.0, alone=False))
    return queue


def next_of(queue: FairQueue, documents: bool) -> Sequence:
    """Runs the next sequence of a queue with one slot to its end."""
    sequence = next(queue.ordered(documents))
    queue.start(sequence)
    queue.vacate(sequence)
    return sequence


def test_a_client_of_weight_2_gets_twice_the_tokens_at_any_time() -> None:
    for priority in (0, 1):
        queue, served = waiting(1, priority), Counter[str]()
        for _ in range(500):
            sequence = next_of(queue, bool(priority))
            served[sequence.job.client] += sequence.length
            assert abs(served["heavy"] / 2 - served["light"]) <= LONGEST / 2 + LONGEST


def test_weights_hold_within_one_batch_too() -> None:
    taken = itertools.islice(waiting(30, shortest=LONGEST).ordered(documents=False), 30)
    assert Counter(sequence.job.client for sequence in taken) == {"heavy": 20, "light": 10}
