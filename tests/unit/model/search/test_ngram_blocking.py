"""Tests of n-gram blocking and the loop guard.

PyTorch promises equal tokens, and scores within 1e-4 (the order of float32 sums); the CPU backend
promises equal bits.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from model.search.backend_interface import Backend
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis
from model.search.repetition import blocked_tokens, ends_in_loop, longest_loop
from tests.support.models.cpu_models import (
    PRECISIONS,
    cpu_backend,
    needs_cpu_backend,
    sentences,
    tiny,
    torch_backend,
)
from tests.support.models.random_models import decode, random_ids, random_model

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize(
    ("tokens", "size", "expected"),
    [
        ([], 1, set()),
        ([7, 8], 0, set()),
        ([7, 8, 7], 1, {7, 8}),
        ([7, 8, 7], 2, {8}),
        ([7, 8, 7, 9, 7], 2, {8, 9}),
        ([7, 8, 9, 7, 8], 3, {9}),
        ([7, 8, 9, 7, 8], 4, set()),
        ([7, 7, 7], 3, {7}),
    ],
)
def test_tokens_that_would_repeat_an_n_gram_are_blocked(
    tokens: list[int], size: int, expected: set[int]
) -> None:
    assert blocked_tokens(tokens, size) == expected


@pytest.mark.parametrize(
    ("tokens", "length"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 0),
        ([5] * 6, 0),
        ([5] * 7, 7),
        ([1, 2, *[5] * 9, 3], 9),
        ([1, 2, 1, 2, 1, 2], 0),
        ([9, 1, 2, 1, 2, 1, 2, 1, 9], 7),
        ([1, 2, 3] * 3, 9),
        ([1, 2, 3, 1, 2, 3, 1, 2], 0),
        ([4, 5, *range(10, 42), *range(10, 42), *range(10, 42)], 96),
    ],
)
def test_a_loop_is_three_consecutive_copies_of_minimum_length(
    tokens: list[int], length: int
) -> None:
    assert longest_loop(tokens) == length
    assert ends_in_loop(tokens) == (
        (length > 0 and tokens[-1] not in (3, 9)) or (tokens[-3:] == [1, 2, 3] and length == 9)
    )


def looping(hypothesis: Hypothesis) -> bool:
    return longest_loop(hypothesis.tokens) > 0


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_n_gram_is_repeated(beam: int, size: int) -> None:
    transformer = random_model(seed=5)
    found = decode(
        transformer,
        random_ids(transformer.config, 20),
        beam_size=beam,
        hypotheses=beam,
        no_repeat_ngram_size=size,
    )
    for hypothesis in (hypothesis for listed in found for hypothesis in listed):
        grams = [hypothesis.tokens[i : i + size] for i in range(len(hypothesis.tokens) - size + 1)]
        assert len(grams) == len(set(grams))


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 3])
def test_loop_guard_changes_only_targets_with_loops(beam: int) -> None:
    transformer = random_model(seed=5)
    sources = random_ids(transformer.config, 60)
    plain = decode(transformer, sources, beam_size=beam)
    guarded = decode(transformer, sources, beam_size=beam, loop_guard=True)
    again = decode(transformer, sources, beam_size=beam, no_repeat_ngram_size=3)
    loops = [looping(listed[0]) for listed in plain]
    assert 5 < sum(loops) < 55
    assert not any(looping(listed[0]) for listed in guarded)
    for was, kept, fresh, tried in zip(loops, plain, guarded, again, strict=True):
        expected = tried if was else kept
        assert [hypothesis.tokens for hypothesis in fresh] == [
            hypothesis.tokens for hypothesis in expected
        ]
        assert fresh[0].token_scores == pytest.approx(expected[0].token_scores, abs=1e-4)


def test_loop_guard_allows_loops_of_the_source() -> None:
    transformer = random_model(seed=5)
    config = transformer.config
    sources = [[token] * 40 + [config.eos_id] for token in range(4, 40)]
    plain, guarded = decode(transformer, sources), decode(transformer, sources, loop_guard=True)
    assert any(looping(listed[0]) for listed in plain)
    assert [listed[0].tokens for listed in guarded] == [listed[0].tokens for listed in plain]


def test_forced_tokens_may_repeat() -> None:
    transformer = random_model(seed=5)
    [source] = random_ids(transformer.config, 1)
    prefix = (9, 8) * 5
    [[found]] = decode(transformer, [source], prefix=prefix, loop_guard=True)
    assert found.tokens[:10] == prefix
    [[scored]] = decode(
        transformer, [source], target=prefix, loop_guard=True, no_repeat_ngram_size=1
    )
    assert scored.tokens == prefix
    [[beamed]] = decode(transformer, [source], prefix=prefix, beam_size=2, no_repeat_ngram_size=2)
    assert beamed.tokens[:10] == prefix


def run(
    backend: Backend, sources: list[list[int]], options: DecodingOptions, config: Any
) -> list[tuple[int, ...]]:
    found = translate(backend, sources, options, config)
    return [listed[0].tokens for listed in found]


@pytest.mark.slow
@needs_cpu_backend
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("beam", [1, 3])
def test_batch_and_multi_step_do_not_change_targets(precision: Any, beam: int) -> None:
    transformer = tiny()
    config = transformer.config
    sources = sentences(config, (3, 9, 5, 12, 1, 7, 7, 2, 11, 4, 6, 8))
    for options in (
        DecodingOptions(beam_size=beam, loop_guard=True),
        DecodingOptions(beam_size=beam, no_repeat_ngram_size=2),
    ):
        together = run(cpu_backend(transformer, precision, slots=16), sources, options, config)
        backend = cpu_backend(transformer, precision, slots=beam)
        assert [run(backend, [source], options, config)[0] for source in sources] == together
        plain = run(
            cpu_backend(transformer, precision),
            sources,
            dataclasses.replace(options, loop_guard=False),
            config,
        )
        if options.loop_guard:
            assert any(longest_loop(tokens) for tokens in plain)
        if precision == "float32":
            assert run(torch_backend(transformer, precision), sources, options, config) == together
