"""Shares of the device: of clients and their weights, and in simulated time of documents beside
sentences and of one client beside others."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from model.search.options import DecodingOptions, Hypothesis
from server.engine.ipc.messages import Job, Look
from server.engine.worker.scheduler import ModelQueue, Scheduler, StepTime
from server.engine.worker.sequence import LOOK, SHORT
from tests.support.engine.simulated_worker import SimulatedWorker

LONGEST = 40
WEIGHTS = {"light": 1.0, "heavy": 2.0}


def percentile(latencies: list[float], part: float) -> float:
    return sorted(latencies)[int(part * len(latencies))]


@pytest.mark.parametrize(("beam", "sentences"), [(1, 150), (4, 50), (32, 6)])
@pytest.mark.parametrize("clients", [8, 32, 100])
def test_a_document_progresses_beside_endless_sentences(
    beam: int, sentences: int, clients: int
) -> None:
    alone, beside, without = SimulatedWorker(), SimulatedWorker(), SimulatedWorker()
    alone.add_documents(sentences, beam)
    alone.run()
    beside.add_documents(sentences, beam)
    beside.run(0, 0.3)
    beside.run(clients, 20 * alone.now)
    assert not beside.documents and beside.now < 8 * alone.now
    without.run(clients, beside.now)
    assert percentile(beside.latencies, 0.5) < 1.6 * percentile(without.latencies, 0.5)
    assert percentile(beside.latencies, 0.99) < 2.2 * percentile(without.latencies, 0.99)


@pytest.mark.parametrize(("slots", "beam"), [(1, 1), (8, 1), (8, 8), (32, 32)])
def test_documents_and_sentences_progress_where_slots_are_few(slots: int, beam: int) -> None:
    worker = SimulatedWorker(slots)
    worker.add_documents(8 * slots // beam, beam)
    worker.run(4, 60.0, beam=beam)
    assert not worker.documents and len(worker.latencies) > 8


def test_documents_take_less_time_again_after_many_sentences_became_few() -> None:
    worker, without = SimulatedWorker(), SimulatedWorker()
    worker.add_documents(1_000, 4)
    worker.run(60, 3.0)
    worker.run(4, 3.0)
    worker.latencies.clear()
    worker.run(4, 3.0)
    without.run(4, 3.0)
    assert percentile(worker.latencies, 0.5) < 2 * percentile(without.latencies, 0.5)


def test_documents_that_come_after_sentences_delay_them_little() -> None:
    worker, without = SimulatedWorker(), SimulatedWorker()
    worker.run(2, 5.0)
    worker.latencies.clear()
    worker.add_documents(1_000, 1)
    worker.run(2, 0.3)
    without.run(2, 5.0)
    assert max(worker.latencies) < 3 * max(without.latencies)


@pytest.mark.parametrize(
    ("sentences", "documents", "beam"),
    [(4_000, 0, 1), (1_000, 0, 4), (500, 0, 16), (0, 4_000, 1), (0, 1_000, 16)],
    ids=["small requests", "long text", "wide beam", "documents", "documents with a wide beam"],
)
@pytest.mark.parametrize("clients", [8, 32])
def test_a_hog_delays_polite_clients_little(
    clients: int, sentences: int, documents: int, beam: int
) -> None:
    alone, beside = SimulatedWorker(), SimulatedWorker()
    alone.run(clients, 10.0)
    beside.add_hog(sentences, beam)
    beside.add_documents(documents, beam)
    beside.run(clients, 10.0)
    assert beside.hog + beside.documents < sentences + documents, "the hog did not progress"
    assert percentile(beside.latencies, 0.99) <= 2.5 * percentile(alone.latencies, 0.99)


@pytest.mark.parametrize("clients", [1, 2, 8])
def test_long_targets_that_are_only_scored_delay_polite_clients_little(clients: int) -> None:
    alone, beside = SimulatedWorker(), SimulatedWorker()
    alone.run(clients, 10.0)
    beside.add_scores(10_000)
    beside.run(clients, 10.0)
    assert percentile(beside.latencies, 0.99) <= 2.5 * percentile(alone.latencies, 0.99)


@pytest.mark.parametrize(("client", "priority"), [("0", 1), ("hog", 1), ("hog", 0)])
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("clients", [2, 8])
def test_many_looks_delay_sentences_and_their_markup_little(
    clients: int, marked: bool, client: str, priority: int
) -> None:
    """Those of a long request count as a document, also where they are of a client with
    sentences."""
    alone, beside = SimulatedWorker(marked=marked), SimulatedWorker(marked=marked)
    alone.run(clients, 10.0)
    beside.add_looks(5_000, client, priority=priority)
    beside.run(clients, 10.0)
    assert percentile(beside.latencies, 0.99) <= 2.5 * percentile(alone.latencies, 0.99)


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
