"""The share of the device that documents get beside interactive sequences."""

from __future__ import annotations

from server.engine.worker.document_share import DocumentTurns, InteractiveReserve


def test_documents_get_a_quarter_of_the_time():
    turns, now, with_documents = DocumentTurns(), 0.0, 0
    for _ in range(1_000):
        documents = turns.due(now) and now > 0
        with_documents += documents
        seconds = 0.04 if documents else 0.01
        now += seconds
        turns.record_steps(now, seconds, 1, documents=documents)
    delay = 0.03 * with_documents / now
    assert 0.15 < delay < 0.3


def test_a_delay_counts_for_each_of_several_steps():
    turns = DocumentTurns()
    turns.record_steps(1.0, 0.04, 4, documents=False)
    turns.record_steps(1.1, 0.08, 4, documents=True)
    assert not turns.due(1.21) and turns.due(1.23)


def test_the_reserve_follows_the_need_of_the_last_seconds():
    reserve = InteractiveReserve(64)
    assert reserve.slots == 0
    reserve.update(4, 0.0)
    assert reserve.slots == 8
    reserve.update(60, 0.1)
    assert reserve.slots == 48
    reserve.update(0, 20.0)
    assert reserve.slots == 0
