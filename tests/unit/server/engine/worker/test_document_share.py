"""The share of the device that documents get beside interactive sequences."""

from __future__ import annotations

import pytest

from server.engine.worker.document_share import DocumentTurns, InteractiveReserve
from tests.support.simulated_worker import SimulatedWorker


@pytest.mark.parametrize("document_step", [0.011, 0.04, 0.4])
def test_documents_delay_others_for_a_quarter_of_the_time(document_step: float) -> None:
    turns, now, delay = DocumentTurns(), 0.0, 0.0
    turns.record_steps(0.01, 1, documents=False)
    for _ in range(4_000):
        documents = turns.due
        seconds = document_step if documents else 0.01
        now += seconds
        delay += (document_step - 0.01) * documents
        turns.record_steps(seconds, 1, documents=documents)
    assert delay / now == pytest.approx(min(0.25, 1 - 0.01 / document_step), rel=0.1)


def test_a_delay_counts_for_each_of_several_steps() -> None:
    turns = DocumentTurns()
    turns.record_steps(0.04, 4, documents=False)
    turns.record_steps(0.08, 4, documents=True)
    turns.record_interactive(0.03)
    assert not turns.due
    turns.record_interactive(0.02)
    assert turns.due


def test_the_reserve_follows_the_need_of_the_last_seconds() -> None:
    reserve = InteractiveReserve(64)
    assert reserve.slots == 0
    reserve.update(4, 0.0)
    assert reserve.slots == 4
    reserve.update(60, 0.1)
    assert reserve.slots == 48
    reserve.update(0, 20.0)
    assert reserve.slots == 0


def percentile(latencies: list[float], part: float) -> float:
    return sorted(latencies)[int(part * len(latencies))]


@pytest.mark.parametrize(("beam", "sentences"), [(1, 150), (4, 50), (32, 6)])
@pytest.mark.parametrize("clients", [8, 32, 100])
def test_a_document_progresses_beside_endless_sentences(beam: int, sentences: int, clients: int) -> None:
    alone, beside, without = SimulatedWorker(), SimulatedWorker(), SimulatedWorker()
    alone.add_documents(sentences, beam)
    alone.run()
    beside.add_documents(sentences, beam)
    beside.run(0, 0.3)
    beside.run(clients, 20 * alone.now)
    assert not beside.documents and beside.now < 8 * alone.now
    assert beside.lost_steps < 0.2 * beside.steps, "more than the slots that the first sentences took"
    without.run(clients, beside.now)
    assert percentile(beside.latencies, 0.5) < 1.6 * percentile(without.latencies, 0.5)
    assert percentile(beside.latencies, 0.99) < 2.2 * percentile(without.latencies, 0.99)


@pytest.mark.parametrize(("slots", "beam"), [(1, 1), (8, 1), (8, 8), (32, 32)])
def test_documents_and_sentences_progress_where_slots_are_few(slots: int, beam: int) -> None:
    worker = SimulatedWorker(slots)
    worker.add_documents(8 * slots // beam, beam)
    worker.run(4, 60.0, beam=beam)
    assert not worker.documents and len(worker.latencies) > 8


def test_bursts_of_sentences_do_not_undo_the_work_of_documents() -> None:
    worker = SimulatedWorker()
    worker.add_documents(500, 4)
    while worker.documents:
        worker.run(48, 0.5)
        worker.run(0, 3.0)
    assert worker.lost_steps < 0.1 * worker.steps


def test_documents_take_less_time_again_after_many_sentences_became_few() -> None:
    worker, without = SimulatedWorker(), SimulatedWorker()
    worker.add_documents(1_000, 4)
    worker.run(60, 3.0)
    worker.run(4, 3.0)
    worker.latencies.clear()
    worker.run(4, 3.0)
    without.run(4, 3.0)
    assert percentile(worker.latencies, 0.5) < 2 * percentile(without.latencies, 0.5)
