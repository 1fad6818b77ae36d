"""Which jobs run alone after crashes, and which are rejected."""

from __future__ import annotations

import dataclasses

from model.search.options import DecodingOptions
from server.engine.client.crash_history import CrashHistory
from server.engine.ipc.messages import AttentionJob, TranslateJob

JOB = TranslateJob(1, "m", (1, 2, 3), DecodingOptions())
ALONE = dataclasses.replace(JOB, id=2, alone=True)
"""The same text, sent again."""


def test_a_crash_isolates_a_job_and_a_second_one_rejects_it() -> None:
    history = CrashHistory()
    assert not history.must_run_alone(JOB)
    history.record_exit(JOB, external=False)
    assert history.must_run_alone(JOB) and not history.is_rejected(JOB)
    history.record_exit(ALONE, external=False)
    assert history.is_rejected(JOB)


def test_crashes_of_a_batch_reject_no_job() -> None:
    history = CrashHistory()
    for _ in range(10):
        history.record_exit(JOB, external=False)
    assert history.must_run_alone(JOB) and not history.is_rejected(JOB)


def test_external_kills_weigh_less_than_crashes() -> None:
    history = CrashHistory()
    history.record_exit(JOB, external=True)
    assert not history.must_run_alone(JOB)
    history.record_exit(JOB, external=True)
    assert history.must_run_alone(JOB)
    for kills in range(3):
        assert not history.is_rejected(JOB) and history.kills(JOB) == kills
        history.record_exit(ALONE, external=True)
    assert history.is_rejected(JOB)


def test_kills_that_also_hit_other_jobs_reject_later() -> None:
    """Two jobs are hit in turn: either the kills are random, or both jobs are the cause."""
    history = CrashHistory()
    other = dataclasses.replace(ALONE, source=(9, 9))
    for _ in range(9):
        for job in (ALONE, other):
            history.record_exit(job, external=True)
            assert not history.is_rejected(job)
    history.record_exit(ALONE, external=True)
    assert history.is_rejected(ALONE) and not history.is_rejected(other)


def test_an_answer_deletes_the_record_and_clear_deletes_all() -> None:
    history = CrashHistory()
    other = AttentionJob(3, "m", (1, 2, 3), (4,))
    for job in (JOB, other):
        history.record_exit(job, external=False)
    history.forget(ALONE)
    assert not history.must_run_alone(JOB) and history.must_run_alone(other)
    history.clear()
    assert not history.must_run_alone(other)


def test_the_number_of_records_is_bounded() -> None:
    history = CrashHistory()
    for number in range(3_000):
        history.record_exit(dataclasses.replace(JOB, source=(number,)), external=False)
    assert len(history._records) == 1_000
    assert history.must_run_alone(dataclasses.replace(JOB, source=(2_999,)))
