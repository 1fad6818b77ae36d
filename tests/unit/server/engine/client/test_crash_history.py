"""Which jobs run alone after crashes, and which are rejected."""

from __future__ import annotations

import dataclasses

from model.search.options import DecodingOptions
from server.engine.client.crash_history import MAX_ENDS_ALONE, CrashHistory
from server.engine.ipc.messages import AttentionJob, TranslateJob

JOB = TranslateJob(1, "m", (1, 2, 3), DecodingOptions())
ALONE = dataclasses.replace(JOB, id=2, alone=True)
"""The same text, sent again."""


def test_the_end_of_a_worker_isolates_a_job_and_two_further_ones_reject_it() -> None:
    history = CrashHistory()
    assert history.ends_alone(JOB) is None
    history.record_exit(JOB)
    history.record_exit(ALONE)
    assert history.ends_alone(JOB) == 1
    history.record_exit(ALONE)
    assert history.ends_alone(JOB) == MAX_ENDS_ALONE == 2


def test_crashes_of_a_batch_reject_no_job() -> None:
    history = CrashHistory()
    for _ in range(10):
        history.record_exit(JOB)
    assert history.ends_alone(JOB) == 0


def test_an_answer_deletes_the_record_and_clear_deletes_all() -> None:
    history = CrashHistory()
    other = AttentionJob(3, "m", (1, 2, 3), (4,))
    for job in (JOB, other):
        history.record_exit(job)
    history.forget(ALONE)
    assert history.ends_alone(JOB) is None and history.ends_alone(other) == 0
    history.clear()
    assert history.ends_alone(other) is None


def test_the_number_of_records_is_bounded() -> None:
    history = CrashHistory()
    for number in range(3_000):
        history.record_exit(dataclasses.replace(JOB, source=(number,)))
    assert len(history._ends_alone) == 1_000
    assert history.ends_alone(dataclasses.replace(JOB, source=(2_999,))) == 0
