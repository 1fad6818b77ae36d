"""The evidence about words of two sentences. tests/unit/model/backends/torch/test_word_reading.py compares the backends."""

from __future__ import annotations

import numpy as np
import pytest

from model.analysis.pair_alignment import WordedSentence
from model.backends.torch.backend import TorchBackend
from server.engine.worker.model_runner import both_sides, pairs_evidence
from tests.support.models.cpu_models import tiny

pytestmark = pytest.mark.numeric

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
