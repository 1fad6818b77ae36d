"""Imported models translate like Bergamot, the engine of Firefox: the same targets and scores in
float32.

`make conformance` runs these tests if node and npm are installed; the package comes from npm. The
models are trained for a few seconds on made-up text, because targets of random weights hardly
depend on their sources.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model
from model.search.options import Hypothesis
from tests.support.models.cpu_models import cpu_backend, needs_cpu_backend
from tests.support.models.firefox_models import SHAPES, Sample, targets, trained_sample
from tests.support.servers.live import ROOT

pytestmark = pytest.mark.programs
PACKAGE = "@browsermt/bergamot-translator@0.4.9"
SCRIPT = ROOT / "benchmarks" / "families" / "bergamot.mjs"
_WORD = re.compile(r'x-bergamot-word-index="(\d+)" x-bergamot-word-score="([^"]+)"')


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Bergamot's package."""
    if missing := [name for name in ("node", "npm") if shutil.which(name) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    folder = tmp_path_factory.mktemp("npm")
    packed = subprocess.run(
        ["npm", "pack", PACKAGE], cwd=folder, capture_output=True, timeout=120, check=False
    )
    archive = next(folder.glob("*.tgz"), None)
    if packed.returncode or archive is None:
        pytest.skip("the package cannot be downloaded from npm")
    shutil.unpack_archive(archive, folder, filter="data")
    return folder / "package"


@pytest.fixture(scope="module", params=SHAPES)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return trained_sample(tmp_path_factory.mktemp("models"), request.param)


def bergamot(package: Path, sample: Sample, *, html: bool = False, **config: str) -> list[str]:
    """Returns the targets of Bergamot."""
    request = {
        "package": str(package),
        "model": str(sample.model),
        "texts": sample.texts,
        "html": html,
        "vocabs": [str(file) for file in sample.vocabularies],
        "config": {"gemm-precision": "float32", "skip-cost": "false", **config},
    }
    done = subprocess.run(
        ["node", SCRIPT],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)["targets"]
    return found


@pytest.mark.parametrize("backend", ["torch", pytest.param("cpu", marks=needs_cpu_backend)])
def test_greedy_targets_and_scores_equal_those_of_bergamot(
    package: Path, sample: Sample, backend: str
) -> None:
    tokenizer, transformer = sample.folder.load_tokenizer(), load_model(sample.folder)
    found = targets(
        sample,
        TorchBackend(transformer, 32)
        if backend == "torch"
        else cpu_backend(transformer, "float32"),
    )
    ended = [number for number, best in enumerate(found) if best.finish_reason == "stop"]
    assert len(ended) > 30
    theirs = bergamot(package, sample)
    texts = {i: tokenizer.decode(found[i].tokens) for i in ended}
    different = {i: (texts[i], theirs[i]) for i in ended if texts[i] != theirs[i]}
    # two equally probable tokens: the sums have another order
    assert len(different) <= len(ended) // 50, different
    scored = bergamot(package, sample, html=True)
    for i in set(ended) - set(different):
        # a word may be in two elements
        scores = [float(score) for score in dict(_WORD.findall(scored[i])).values()]
        np.testing.assert_allclose(word_scores(tokenizer.piece, found[i]), scores, atol=1e-3)


@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_beam_4_targets_equal_those_of_bergamot(
    package: Path, sample: Sample, alpha: float
) -> None:
    """Bergamot's beam is Marian's: it shrinks with every finished target."""
    tokenizer, backend = sample.folder.load_tokenizer(), TorchBackend(load_model(sample.folder), 32)
    found = targets(
        sample,
        backend,
        beam_size=4,
        normalization="average",
        length_penalty=alpha,
        shrinking_beam=True,
    )
    theirs = bergamot(package, sample, **{"beam-size": "4", "normalize": str(alpha)})
    ended = [number for number, best in enumerate(found) if best.finish_reason == "stop"]
    assert len(ended) > 30
    different = [
        number for number in ended if tokenizer.decode(found[number].tokens) != theirs[number]
    ]
    assert len(different) <= len(ended) // 50, different


def word_scores(piece: Any, best: Hypothesis) -> list[float]:
    """Returns the mean log-probability of the tokens of each word, as Bergamot does."""
    words: list[list[float]] = []
    for token, score in zip(best.tokens, best.token_scores, strict=False):
        if not words or piece(token).startswith("\u2581"):
            words.append([])
        words[-1].append(score)
    return [sum(scores) / len(scores) for scores in words]
