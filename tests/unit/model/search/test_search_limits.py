"""The steps and the length of a search, and the options that are refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from model.model_folder import Generation
from model.search.options import LENGTH_PENALTY, DecodingOptions
from model.search.search import normalize
from tests.support.models.random_models import best, decode, random_model
from tests.support.models.table_search import Table, search

pytestmark = pytest.mark.numeric


def test_early_stopping_takes_fewer_steps() -> None:
    early = [Table(size=6, seed=seed) for seed in range(20)]
    full = [Table(size=6, seed=seed) for seed in range(20)]
    for table in early:
        search(table, beam_size=3, max_length=30, early_stopping=True, length_penalty=1.0, normalization="average")
    for table in full:
        search(table, beam_size=3, max_length=30, length_penalty=1.0, normalization="average")
    assert all(a.steps <= b.steps for a, b in zip(early, full, strict=True))
    assert sum(table.steps for table in early) < sum(table.steps for table in full)


def test_the_default_maximum_length_is_source_plus_50() -> None:
    transformer = random_model(max_length=200)
    with torch.no_grad():
        transformer.embedding.weight[transformer.config.eos_id] = 0
        transformer.decoder[-1].feed_forward_residual.norm.bias.normal_(std=2.0)
        transformer.embedding.weight[7] += transformer.decoder[-1].feed_forward_residual.norm.bias
    source = [5, 6, transformer.config.eos_id]
    assert len(best(decode(transformer, [source]))[0]) == 53
    assert len(best(decode(transformer, [source], max_length=9))[0]) == 9
    assert len(best(decode(transformer, [source], max_length=10_000))[0]) == 200
    assert decode(transformer, [source], beam_size=3, max_length=5)[0][0].finish_reason == "length"


def test_too_few_slots_for_a_beam_are_refused() -> None:
    with pytest.raises(ValueError, match="beam of 4 needs"):
        search(Table(slots=3), beam_size=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"prefix": (2,) * 60}, "prefix has 60 tokens"), ({"target": (2,) * 60}, "target has 60 tokens")],
)
def test_targets_over_the_maximum_length_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(Table(), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": -1},
        {"beam_size": 33},
        {"hypotheses": 2},
        {"max_length": 0},
        {"no_repeat_ngram_size": -1},
        {"length_penalty": -0.1},
        {"length_penalty": math.nan},
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        DecodingOptions(**options)


def test_the_model_states_the_beam_of_requests_that_set_none() -> None:
    assert DecodingOptions(beam_size=0).with_defaults(6) == DecodingOptions(beam_size=6)
    assert DecodingOptions(beam_size=0, hypotheses=3).with_defaults(1) == DecodingOptions(beam_size=3, hypotheses=3)
    assert DecodingOptions(beam_size=2).with_defaults(6).beam_size == 2


def test_the_model_states_what_requests_leave_open() -> None:
    stated = Generation(length_penalty=1.4)
    assert DecodingOptions(beam_size=4).with_defaults(1, stated) == DecodingOptions(beam_size=4, length_penalty=1.4)
    assert DecodingOptions(length_penalty=0.0).with_defaults(1, stated).length_penalty == 0.0
    others: dict[str, Any] = {"normalization": "average", "early_stopping": True, "no_repeat_ngram_size": 3}
    stated = Generation(length_penalty=1.4, **others)
    assert DecodingOptions().with_defaults(1, stated) == DecodingOptions(length_penalty=1.4, **others)
    own = DecodingOptions(length_penalty=0.5, no_repeat_ngram_size=2)
    assert own.with_defaults(1, stated) == replace(own, early_stopping=True)
    assert normalize(-3.0, 7, DecodingOptions()) == normalize(-3.0, 7, DecodingOptions(length_penalty=LENGTH_PENALTY))
