"""Scores of hypotheses, of forced targets, and of the steps in a trace.

Scores of PyTorch promise 1e-4, because the order of its float32 sums depends on the processor and the shape.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from model.backends.torch.backend import TorchBackend
from model.search.driver import SearchDriver, search_kind
from model.search.options import DecodingOptions
from tests.support.models.random_models import VARIANTS, decode, random_ids, random_model
from tests.support.models.table_search import Table, complete, search

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("beam", [1, 2, 4, 7])
@pytest.mark.parametrize("normalization", ["gnmt", "average"])
def test_scores_are_normalized_sums_of_token_scores(beam: int, normalization: Any) -> None:
    for seed in range(10):
        table = Table(size=6, seed=seed)
        found = search(table, beam_size=beam, hypotheses=beam, normalization=normalization, max_length=9)
        assert len(found) == beam
        assert len({hypothesis.tokens for hypothesis in found}) == beam
        assert [hypothesis.score for hypothesis in found] == sorted((h.score for h in found), reverse=True)
        for hypothesis in found:
            target = complete(hypothesis)
            assert hypothesis.token_scores == pytest.approx(table.total((2, 3), target), abs=1e-5)
            length = len(target)
            penalty = ((5 + length) / 6) ** 0.6 if normalization == "gnmt" else length**0.6
            assert hypothesis.score == pytest.approx(sum(hypothesis.token_scores) / penalty, abs=1e-5)
            assert (hypothesis.finish_reason == "stop") == (len(hypothesis.tokens) < len(hypothesis.token_scores))


@pytest.mark.parametrize("variant", VARIANTS)
def test_forced_scores_equal_the_teacher_forced_pass(variant: str) -> None:
    transformer = random_model(variant)
    config = transformer.config
    [source] = random_ids(config, 1)
    target = (5, 9, 14, 5)
    [[scored]] = decode(transformer, [source], target=target)
    with torch.inference_mode():
        read = torch.tensor([[config.decoder_start_id, *target]])
        logits = transformer(torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool), read)[0]
    expected = torch.log_softmax(logits, -1)[range(5), [*target, config.eos_id]]
    assert scored.token_scores == pytest.approx(expected.tolist(), abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_trace_contains_every_step_of_the_search(beam: int) -> None:
    transformer = random_model()
    config = transformer.config
    [source] = random_ids(config, 1)
    options = DecodingOptions(beam_size=beam, trace=True, max_length=12)
    searching = search_kind(options)(
        options,
        start=config.decoder_start_id,
        end=config.eos_id,
        source=source,
        max_length=config.max_length,
        slots=range(beam),
    )
    driver = SearchDriver(TorchBackend(transformer, beam), end=config.eos_id, max_length=config.max_length)
    driver.start([searching])
    while not searching.done:
        driver.step([searching])
    rows: list[tuple[int, ...]] = [()]
    finished = []
    for step in searching.trace:
        assert len(step.beams) == len(rows)
        for parent, token, total in (*step.chosen, *step.finished):
            assert token in [candidate for candidate, _ in step.beams[parent]]
            assert total <= 0
        finished += [rows[parent] for parent, _, _ in step.finished]
        rows = [(*rows[parent], token) for parent, token, _ in step.chosen]
    assert {found.tokens for found in searching.hypotheses()} <= {*finished, *rows}
