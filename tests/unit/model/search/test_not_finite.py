"""A text whose scores are NaN ends alone, in every search and on every backend."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from model.backends.cuda.graphs import GraphedBackend
from model.backends.torch.backend import TorchBackend
from model.search.backend_interface import Backend
from model.search.driver import SearchDriver, search_kind, translate
from model.search.options import DecodingOptions, Hypothesis
from model.search.search import NotFiniteError
from model.transformer import Transformer
from tests.support.models.cpu_models import LIBRARY, cpu_backend, tiny

pytestmark = pytest.mark.numeric
BAD = 7
"""Sources with this token overflow, and so do steps that read it."""
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {}, "beam": {"beam_size": 3, "hypotheses": 2}, "scored": {"target": (9, 10, 11)},
    "n-grams": {"no_repeat_ngram_size": 2}, "guarded": {"loop_guard": True}, "traced": {"trace": True},
    "prefix": {"prefix": (9, 8)}, "shrinking": {"beam_size": 4, "shrinking_beam": True},
}  # fmt: skip
BACKENDS = ["torch", "graphs", *(["float32"] if LIBRARY else [])]


def model() -> Transformer:
    transformer = tiny(tied_embeddings=False, source_vocab_size=200)
    with torch.no_grad():
        for embedding in (transformer.source_embedding, transformer.embedding):
            embedding.weight[BAD] = 3e38
    return transformer


def backend(name: str) -> Backend:
    if name == "torch":
        return TorchBackend(model(), 8)
    if name == "graphs":
        return GraphedBackend(model(), 8, capture=False)
    return cpu_backend(model(), "float32", slots=8)


def run(backend: Backend, sources: list[list[int]], options: DecodingOptions) -> list[tuple[Hypothesis, ...] | None]:
    """Decodes the sources as one batch: the hypotheses of each, None where its numbers are not finite."""
    driver = SearchDriver(backend, end=3, max_length=64)
    width = search_kind(options)(options, start=2, end=3, source=sources[0], max_length=64).width
    items = [
        search_kind(options)(
            options, start=2, end=3, source=source, max_length=64, slots=range(width * i, width * i + width)
        )
        for i, source in enumerate(sources)
    ]
    driver.start(items)
    for _ in range(2 * 64 + 8):
        if live := [item for item in items if not item.done]:
            driver.step(live)
    assert all(item.done for item in items)
    for item in items:
        driver.stop(item)
    return [item.hypotheses() if item.finite else None for item in items]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_text_that_overflows_ends_alone(name: str, kind: str) -> None:
    options = DecodingOptions(**{"max_length": 20, **KINDS[kind]})
    good, bad = [20, 30, 40, 3], [20, BAD, *range(20, 40), 3]
    one = backend(name)
    expected = run(one, [good], options)
    found = run(one, [bad, good], options)
    assert found[0] is None and expected[0] is not None and found[1] is not None
    assert [each.tokens for each in found[1]] == [each.tokens for each in expected[0]]
    with pytest.raises(NotFiniteError):
        translate(one, [bad], options, start=2, end=3, max_length=64)
    assert run(one, [good], options) == expected  # nothing stays behind in its slots


@pytest.mark.parametrize("name", BACKENDS)
def test_a_target_that_overflows_after_some_tokens(name: str) -> None:
    one = backend(name)
    for options in ({"target": (9, 10, BAD, 11, 12)}, {"prefix": (9, BAD, 11), "beam_size": 2}):
        plain = DecodingOptions(beam_size=2, max_length=20)
        expected = run(one, [[20, 30, 3]], plain)
        assert run(one, [[20, 30, 40, 3]], DecodingOptions(**options, max_length=20)) == [None]
        assert run(one, [[20, 30, 3]], plain) == expected != [None]


@pytest.mark.parametrize("name", BACKENDS)
def test_ids_of_rows_that_are_not_finite_are_in_the_vocabulary(name: str) -> None:
    one = backend(name)
    one.prefill([[20, BAD, 3]], [0])
    for candidates in (1, 4):
        assert (
            0 <= one.step([0], [2], candidates, [-1]).ids.min() <= one.step([0], [2], candidates, [-1]).ids.max() < 200
        )
    forbidden = (0, 1, 5)
    if hasattr(one, "multi_step"):
        for output in one.multi_step([0], [2], 4, forbidden):
            assert 0 <= output.ids.min() <= output.ids.max() < 200
