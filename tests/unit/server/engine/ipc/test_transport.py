"""Messages survive packing and unpacking, however the bytes are split."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from model.analysis.attention_alignment import AlignmentLayer, alignment_map
from model.analysis.types import ALIGNMENT, AttentionMaps, HeadVectors
from model.search.options import DecodingOptions, Hypothesis, TraceStep
from server.engine.ipc.messages import (
    Cancel,
    Failed,
    Job,
    JobResult,
    LoadModel,
    Look,
    ModelLoaded,
    Progress,
    Started,
    StepStats,
    Timings,
    WorkerReady,
)
from server.engine.ipc.transport import Unpacker, pack

OPTIONS = DecodingOptions(
    beam_size=4, hypotheses=2, masked_heads=(("cross", 0, 1),), prefix=(5,), max_length=7
)
BEST = Hypothesis((4, 5), (-0.25, -0.5, -1.0), -1.75, "stop")
STEP = TraceStep((((4, -0.5), (5, -1.0)),), ((0, 4, -0.5),), ())
MESSAGES = [
    LoadModel("m", "folder"),
    Job(1, "m", (1, 2, 3), OPTIONS, 1, "somebody", 2.0, True, True),
    Job(2, "m", (1,), DecodingOptions()),
    Job(
        3, "m", (1, 2), DecodingOptions(target=(3,), masked_heads=(("encoder", 0, 0),)), look=Look()
    ),
    Cancel(1),
    WorkerReady("cpu", "int8", "native", {"threads": "1"}),
    ModelLoaded("m", 0.5),
    Started((1,)),
    Started((1, 2)),
    Progress(1, (4,)),
    JobResult(1, (BEST, BEST), Timings(0.1, 0.2, 0.3, 0.4), 3, (STEP,)),
    Failed(2, "invalid", "No."),
    StepStats(1, 2, 3, 4, 5, 6, 7, ((1, 0.125),)),
]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_messages_are_equal_after_packing_and_unpacking(size: int) -> None:
    sent = pack(MESSAGES[:5]) + pack(MESSAGES[5:])
    unpacker = Unpacker()
    received = [
        message
        for at in range(0, len(sent), size)
        for message in unpacker.feed(sent[at : at + size])
    ]
    assert received == MESSAGES
    assert [type(message) for message in received] == [type(message) for message in MESSAGES]


def test_arrays_keep_type_shape_and_values() -> None:
    rng = np.random.default_rng(0)
    maps = AttentionMaps(
        cross=rng.random((2, 4, 3, 5), dtype=np.float32),
        encoder=rng.random((2, 4, 5, 5), dtype=np.float32),
        decoder=rng.random((2, 4, 3, 3), dtype=np.float32),
        token_scores=rng.random(3, dtype=np.float32),
        candidate_ids=rng.integers(0, 9, (3, 8)),
        candidate_scores=rng.random((3, 8), dtype=np.float32),
        value_products=rng.random((2, 5, 4, 4), dtype=np.float32),
        vectors=HeadVectors(*(rng.random((rows, 6), dtype=np.float32) for rows in (3, 5, 5))),
    )
    [received] = Unpacker().feed(pack([JobResult(7, looked=maps)]))
    assert received.id == 7
    for sent, got in ((maps, received.maps), (maps.vectors, received.maps.vectors)):
        for field in dataclasses.fields(sent):
            expected, found = getattr(sent, field.name), getattr(got, field.name)
            if isinstance(expected, np.ndarray):
                assert found.dtype == expected.dtype and np.array_equal(found, expected)


@pytest.mark.parametrize(("size", "bits"), [(200, 24), (300, 11)])
def test_shares_for_linking_words_are_used_as_float32_and_take_half_the_bytes_where_they_are_many(
    size: int, bits: int
) -> None:
    shares = np.random.default_rng(1).random((size, size), dtype=np.float32)
    none = np.zeros((0, 0, 0, 0), dtype=np.float32)
    scores = np.zeros((0, 0), dtype=np.float32)
    maps = AttentionMaps(
        none,
        none,
        none,
        scores,
        scores.astype(np.int64),
        scores,
        none,
        soft=shares,
        choice=ALIGNMENT,
    )
    frame = pack([maps])
    [found] = Unpacker().feed(frame)
    soft = alignment_map(found, AlignmentLayer(0))
    assert soft.dtype == np.float32 and found.reading is None
    np.testing.assert_allclose(soft, shares, rtol=2.0**-bits)
    assert len(frame) < shares.nbytes // (2 if bits == 11 else 1) + 2_000
