"""What goes into the pipe comes out of it, however the bytes are cut."""

from __future__ import annotations

import pytest

from model.search.options import DecodingOptions, Hypothesis, TraceStep
from server.engine.ipc.messages import (
    Attended,
    AttentionJob,
    Cancel,
    Drain,
    Failed,
    LoadModel,
    Maps,
    ModelLoaded,
    Progress,
    Started,
    StepStats,
    Timings,
    Translated,
    TranslateJob,
    WorkerReady,
)
from server.engine.ipc.transport import Unpacker, pack

OPTIONS = DecodingOptions(beam_size=4, hypotheses=2, masked_heads=(("cross", 0, 1),), prefix=(5,), max_length=7)
BEST = Hypothesis((4, 5), (-0.25, -0.5, -1.0), -1.75, "stop")
STEP = TraceStep((((4, -0.5), (5, -1.0)),), ((0, 4, -0.5),), ())
MESSAGES = [
    LoadModel("m", "folder"),
    TranslateJob(1, "m", (1, 2, 3), OPTIONS, 1, "somebody", 2.5, True, True),
    TranslateJob(2, "m", (1,), DecodingOptions()),
    AttentionJob(3, "m", (1, 2), (3,), (("encoder", 0, 0),)),
    Cancel(1),
    Drain(),
    WorkerReady("cpu", "int8", "native", {"threads": "1"}),
    ModelLoaded("m", 10, 20, 0.5),
    Started((1,)),
    Started((1, 2)),
    Progress(1, (4,)),
    Translated(1, (BEST, BEST), Timings(0.1, 0.2, 0.3, 0.4), 3, (STEP,)),
    Attended(3, Maps(b"c", (1, 1, 1, 1), b"e", (1, 1, 1, 1), b"d", (1, 1, 1, 1)), (-1.0,), (((4, -0.5),),), 0.25),
    Failed(2, "invalid", "No."),
    StepStats(1, 2, 3, 4, 5, 0.5, 6, 7, 8, 0.25, 9, ((1, 0.125),), 1, 0.5),
]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_messages_come_out_as_they_went_in(size: int) -> None:
    sent = pack(MESSAGES[:5]) + pack(MESSAGES[5:])
    unpacker = Unpacker()
    received = [message for at in range(0, len(sent), size) for message in unpacker.feed(sent[at : at + size])]
    assert received == MESSAGES
    assert [type(message) for message in received] == [type(message) for message in MESSAGES]
