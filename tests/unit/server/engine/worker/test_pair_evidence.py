"""The evidence about words of two sentences. tests/unit/model/backends/torch/test_word_reading.py
compares the backends."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

from model.analysis.attention_alignment import AlignmentLayer
from model.analysis.pair_alignment import PairWords, WordedSentence, WordLink
from model.analysis.types import ALIGNMENT
from model.backends.torch.backend import TorchBackend
from model.search.options import DEFAULT_GENERATION, DecodingOptions
from server.engine.ipc.messages import Job, Look
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.model_runner import ModelRunner, both_sides, pairs_evidence
from tests.support.models.cpu_models import cpu_backend, needs_cpu_backend, tiny

pytestmark = [needs_cpu_backend, pytest.mark.numeric]

FIRST = WordedSentence((9, 5, 6, 7, 3), ((1, 2), (2, 4)), (5, 6, 15, 6))
SECOND = WordedSentence((8, 11, 12, 13, 3), ((1, 2), (2, 3), (3, 4)), (11, 12, 13, 21, 22, 13))


def test_exchanging_the_sentences_exchanges_the_directions() -> None:
    backend = TorchBackend(tiny(), 4)
    pairs = [(FIRST, SECOND), (SECOND, FIRST)]
    there, back = pairs_evidence(pairs, backend.read_words(*both_sides(pairs)))
    assert there is not None
    assert back is not None
    assert there.similarity.shape == there.forward.shape == there.backward.shape == (2, 3)
    np.testing.assert_allclose(there.similarity, back.similarity.T, atol=1e-6)
    np.testing.assert_allclose(there.forward, back.backward.T, atol=1e-6)
    with pytest.raises(ValueError, match="outside"):
        backend.read_words(*both_sides([(FIRST, WordedSentence((8, 3), ((1, 4),), (5,)))]))


def test_links_of_several_looks_are_those_of_each_alone_in_one_pass_and_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bit for bit; a look whose words are not compared is linked by the attention alone."""
    folder = Mock(model=tiny().config, generation=DEFAULT_GENERATION)
    backend = cpu_backend(tiny(), "int8", threads=1)
    runner = ModelRunner(WorkerOptions(device="cpu", threads=1), 0)
    runner.attach("m", Mock(folder=folder, backend=backend, engine="native", reason=None))
    looks = [
        look(FIRST, SECOND),
        look(SECOND, FIRST),
        look(FIRST, FIRST),
        look(SECOND, SECOND, compared=False),
    ]
    jobs = [
        Job(id, "m", ids, DecodingOptions(target=target), look=each)
        for id, (ids, target, each) in enumerate(looks)
    ]
    assert not any(map(runner.refusal, jobs))
    alone = [links_of(runner, [job])[0] for job in jobs]
    assert any(alone)
    assert links_of(runner, jobs) == alone
    assert links_of(runner, jobs[:3]) == alone[:3]  # as one pass
    monkeypatch.setattr("server.engine.worker.model_runner._SHORT_PASS", 6)
    assert links_of(runner, jobs) == links_of(runner, jobs[:3]) + alone[3:] == alone


def look(
    first: WordedSentence, second: WordedSentence, compared: bool = True
) -> tuple[tuple[int, ...], tuple[int, ...], Look]:
    """A source, its target and their look."""
    words = PairWords(
        (first.words, second.words), ((), ()), (), (first, second) if compared else None
    )
    return (
        first.ids,
        second.ids[:-1],
        Look(AlignmentLayer(1).chosen(ALIGNMENT), words=words, maps=False),
    )


def links_of(runner: ModelRunner, jobs: list[Job]) -> list[tuple[WordLink, ...]]:
    answers = [found for found in runner.attend(jobs) if found is not None]
    assert len(answers) == 1 and all(answer.looked is None for answer in answers[0])
    return [answer.links for answer in answers[0]]
