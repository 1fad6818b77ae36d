"""Which jobs run alone after crashes, and which are rejected."""

from __future__ import annotations

import dataclasses

from model.search.options import DecodingOptions
from server.engine.client.crash_history import CrashHistory, fingerprint
from server.engine.ipc.messages import Job, Look

JOB = Job(1, "m", (1, 2, 3), DecodingOptions())
ALONE = dataclasses.replace(JOB, id=2, alone=True)
"""The same text, sent again."""


def test_an_answer_deletes_the_record_and_clear_deletes_all() -> None:
    history = CrashHistory()
    other = Job(3, "m", (1, 2, 3), DecodingOptions(target=(4,)), look=Look())
    for job in (JOB, other):
        history.record(fingerprint(job), job.alone)
    history.forget(ALONE)
    assert history.ends_alone(JOB) is None and history.ends_alone(other) == 0
    history.clear()
    assert history.ends_alone(other) is None


def test_the_number_of_records_is_bounded() -> None:
    history = CrashHistory()
    for number in range(3_000):
        history.record(fingerprint(dataclasses.replace(JOB, source=(number,))), False)
    assert len(history._ends_alone) == 1_000
    assert history.ends_alone(dataclasses.replace(JOB, source=(2_999,))) == 0
