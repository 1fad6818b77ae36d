"""The backends return the same evidence about words.

The CPU backend and PyTorch agree within 1e-4 in float32, because the order of PyTorch's sums depends on the processor.
"""

from __future__ import annotations

import numpy as np
import pytest

from model.analysis.pair_alignment import WordedSentence
from model.backends.torch.backend import TorchBackend
from server.engine.worker.model_runner import pair_evidence
from tests.support.models.cpu_models import cpu_backend, needs_cpu_backend, tiny

pytestmark = pytest.mark.numeric

FIRST = WordedSentence((9, 5, 6, 7, 3), ((1, 2), (2, 4)), (5, 6, 15, 6))
SECOND = WordedSentence((8, 11, 12, 13, 3), ((1, 2), (2, 3), (3, 4)), (11, 12, 13, 21, 22, 13))


@needs_cpu_backend
def test_the_cpu_backend_returns_the_evidence_of_torch() -> None:
    transformer = tiny()
    expected = pair_evidence(TorchBackend(transformer, 4), FIRST, SECOND)
    found = pair_evidence(cpu_backend(transformer, "float32"), FIRST, SECOND)
    for name in ("similarity", "forward", "backward"):
        assert getattr(expected, name).shape == (2, 3)
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-4)


def test_exchanging_the_sentences_exchanges_the_directions() -> None:
    backend = TorchBackend(tiny(), 4)
    there, back = pair_evidence(backend, FIRST, SECOND), pair_evidence(backend, SECOND, FIRST)
    np.testing.assert_allclose(there.similarity, back.similarity.T, atol=1e-6)
    np.testing.assert_allclose(there.forward, back.backward.T, atol=1e-6)
    with pytest.raises(ValueError, match="outside"):
        pair_evidence(backend, FIRST, WordedSentence((8, 3), ((1, 4),), (5,)))
