"""Who is suspected, who is convicted, and who is not."""

from __future__ import annotations

import dataclasses

from model.search.options import DecodingOptions
from server.engine.client.crash_history import Docket
from server.engine.ipc.messages import AttentionJob, TranslateJob

JOB = TranslateJob(1, "m", (1, 2, 3), DecodingOptions())
ALONE = dataclasses.replace(JOB, id=2, alone=True)
"""The same text, sent again."""


def test_a_crash_isolates_and_a_second_one_convicts() -> None:
    docket = Docket()
    assert not docket.isolated(JOB)
    docket.strike(JOB, outside=False)
    assert docket.isolated(JOB) and not docket.guilty(JOB)
    docket.strike(ALONE, outside=False)
    assert docket.guilty(JOB)


def test_crashes_in_company_convict_nobody() -> None:
    docket = Docket()
    for _ in range(10):
        docket.strike(JOB, outside=False)
    assert docket.isolated(JOB) and not docket.guilty(JOB)


def test_kills_from_outside_weigh_less() -> None:
    docket = Docket()
    docket.strike(JOB, outside=True)
    assert not docket.isolated(JOB)
    docket.strike(JOB, outside=True)
    assert docket.isolated(JOB)
    for kills in range(3):
        assert not docket.guilty(JOB) and docket.rank(JOB) == kills
        docket.strike(ALONE, outside=True)
    assert docket.guilty(JOB)


def test_kills_that_hit_others_too_convict_slowly() -> None:
    """Two jobs that are hit in turn: a killer that does not care, or two that are the cause."""
    docket = Docket()
    other = dataclasses.replace(ALONE, source=(9, 9))
    for _ in range(9):
        for job in (ALONE, other):
            docket.strike(job, outside=True)
            assert not docket.guilty(job)
    docket.strike(ALONE, outside=True)
    assert docket.guilty(ALONE) and not docket.guilty(other)


def test_an_answer_acquits_and_clearing_forgets() -> None:
    docket = Docket()
    other = AttentionJob(3, "m", (1, 2, 3), (4,))
    for job in (JOB, other):
        docket.strike(job, outside=False)
    docket.acquit(ALONE)
    assert not docket.isolated(JOB) and docket.isolated(other)
    docket.clear()
    assert not docket.isolated(other)


def test_it_is_bounded() -> None:
    docket = Docket()
    for number in range(3_000):
        docket.strike(dataclasses.replace(JOB, source=(number,)), outside=False)
    assert len(docket._records) == 1_000
    assert docket.isolated(dataclasses.replace(JOB, source=(2_999,)))
