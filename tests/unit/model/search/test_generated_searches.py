"""Searches of a batch, ranked together or one by one, find what a search by its definition finds
for each alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from model.model_folder import Generation
from model.search import beam
from model.search.driver import translate
from model.search.options import DecodingOptions
from tests.support.models.reference_search import reference_search
from tests.support.models.table_search import CONFIG, END, Table

SIZE, LIMIT = 7, 9


def options(rng: random.Random, width: int) -> DecodingOptions:
    fields: dict[str, Any] = {
        "beam_size": width, "hypotheses": rng.randint(1, width), "early_stopping": rng.random() < 0.3,
        "shrinking_beam": width > 1 and rng.random() < 0.3, "max_length": rng.randint(1, LIMIT),
        "length_penalty": rng.choice([0.0, 0.6, 1.0]), "normalization": rng.choice(["gnmt", "average"]),
        "prefix": tuple(rng.choices(range(width == 1, SIZE), k=rng.choice([0, 0, 0, 1, 4]))),
        "no_repeat_ngram_size": rng.choice([0, 0, 1, 2]), "trace": rng.random() < 0.2,
    }  # fmt: skip
    return DecodingOptions(**fields)


@pytest.mark.parametrize("few", [0, 99])
@pytest.mark.parametrize("seed", range(10))
def test_a_batch_finds_what_the_definition_says(
    seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beam, "_FEW", few)
    rng = random.Random(seed)
    generation = Generation(
        forbidden=tuple(rng.sample(range(1, SIZE), rng.choice([0, 1, 2]))),
        forced_end=rng.random() < 0.3,
        beam_threshold=rng.choice([None, 0.5, 2.0]),
    )
    widths = rng.choice([(1, 2, 4), (4,), (3,)])
    sources = [(rng.randrange(9), number) for number in range(rng.choice([1, 2, 8]))]
    each = [options(rng, rng.choice(widths)) for _ in sources]
    table = Table(size=SIZE, slots=rng.choice([8, 32]), seed=seed)
    found = translate(table, sources, each, CONFIG.replace(max_length=LIMIT + 1), generation)
    for source, own, hypotheses in zip(sources, each, found, strict=True):
        limit = max(own.max_length or 0, len(own.prefix) + 1)
        expected = reference_search(table, source, own, generation, limit)
        assert [hypothesis.token_scores for hypothesis in hypotheses] == [
            scores for _, scores in expected
        ]
        for hypothesis, (tokens, _) in zip(hypotheses, expected, strict=True):
            ended = len(tokens) > len(own.prefix) and tokens[-1] == END
            assert hypothesis.tokens == (tokens[:-1] if ended else tokens)
