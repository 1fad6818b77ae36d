"""Imported models translate like Marian itself: the same greedy and n-best targets and scores in float32.

`make conformance` runs these tests if PYMARIAN_PYTHON names a Python 3.11 that has pymarian 1.12.42 (a download of 604 MB).
Marian translates one sentence at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model
from tests.support.models.cpu_models import cpu_backend, needs_cpu_backend
from tests.support.models.firefox_samples import SHAPES, Sample, targets, trained_sample
from tests.support.servers.live import ROOT

pytestmark = pytest.mark.programs
SCRIPT = ROOT / "tests" / "support" / "models" / "marian_process.py"
_LONGEST = 3  # Marian's default max-length-factor


@dataclass(frozen=True, slots=True)
class Target:
    """A line of Marian's n-best list: text, log-probabilities of its tokens with the end, and normalized score."""

    text: str
    token_scores: list[float]
    score: float


@pytest.fixture(scope="module")
def python() -> str:
    """The Python that has pymarian."""
    named = os.environ.get("PYMARIAN_PYTHON")
    if not named:
        pytest.skip("PYMARIAN_PYTHON names no Python with pymarian")
    return named


@pytest.fixture(scope="module", params=SHAPES)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return trained_sample(tmp_path_factory.mktemp("models"), request.param)


def marian(python: str, sample: Sample, **options: Any) -> list[list[Target]]:
    """Returns the n-best list of each text."""
    vocabularies = [str(file) for file in sample.vocabularies]
    request = {
        "texts": sample.texts,
        "options": {
            "models": [str(sample.model)],
            "vocabs": [vocabularies[0], vocabularies[-1]],
            "n-best": True,
            "word-scores": True,
            "cpu-threads": 1,
            "mini-batch": 1,
            "max-length-factor": _LONGEST,
            "quiet": True,
            "quiet-translation": True,
            **options,
        },
    }
    done = subprocess.run(
        [python, SCRIPT], input=json.dumps(request), stdout=subprocess.PIPE, text=True, timeout=600, check=True
    )
    found: list[list[Target]] = [[] for _ in sample.texts]
    for line in json.loads(done.stdout)["lines"]:
        number, text, tokens, _, score = line.split(" ||| ")
        token_scores = [float(value) for value in tokens.split()[1:]]
        found[int(number)].append(Target(text.strip(), token_scores, float(score)))
    return found


@pytest.mark.parametrize("backend", ["torch", pytest.param("cpu", marks=needs_cpu_backend)])
@pytest.mark.parametrize(("beam", "alpha"), [(1, 1.0), (4, 0.6), (4, 1.0)])
def test_n_best_targets_and_scores_equal_those_of_marian(
    python: str, sample: Sample, backend: str, beam: int, alpha: float
) -> None:
    transformer, tokenizer = load_model(sample.folder), sample.folder.load_tokenizer()
    running = TorchBackend(transformer, 32) if backend == "torch" else cpu_backend(transformer, "float32")
    ours = targets(
        sample,
        running,
        _LONGEST,
        beam_size=beam,
        hypotheses=beam,
        normalization="average",
        length_penalty=alpha,
        shrinking_beam=True,
    )
    different = []
    for text, found, expected in zip(
        sample.texts, ours, marian(python, sample, **{"beam-size": beam, "normalize": alpha}), strict=True
    ):
        assert len(expected) == beam
        if [tokenizer.decode(best.tokens) for best in found] != [best.text for best in expected]:
            different.append((text, [best.score for best in found], [best.score for best in expected]))
            continue
        for best, their in zip(found, expected, strict=True):
            np.testing.assert_allclose(best.token_scores, their.token_scores, atol=1e-3)
            assert best.score == pytest.approx(their.score, abs=1e-3)
    assert len(different) <= len(ours) // 50, different  # equally probable tokens: the sums have another order
