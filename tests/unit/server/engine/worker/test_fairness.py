"""Shares of the device in simulated time: documents beside sentences, and one client beside
others."""

from __future__ import annotations

import pytest

from tests.support.engine.simulated_worker import SimulatedWorker


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
