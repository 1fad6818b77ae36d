"""Greedy and beam search find what their definitions say. Search on a table promises equal results."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from model.model_folder import Generation
from model.search.driver import SearchDriver, search_kind
from model.search.options import RERANK_THRESHOLD, DecodingOptions, Hypothesis
from model.search.search import normalize
from tests.support.models.table_search import END, START, Table, complete, search

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_an_exhaustive_beam_finds_the_best_targets(seed: int, alpha: float) -> None:
    table, limit = Table(size=3, slots=32, seed=seed), 4
    others = [token for token in range(table.size) if token != END]
    targets = [(*tokens, END) for length in range(limit) for tokens in itertools.product(others, repeat=length)] + list(
        itertools.product(others, repeat=limit)
    )
    options = DecodingOptions(beam_size=32, hypotheses=5, max_length=limit, length_penalty=alpha)
    ranked = sorted(targets, key=lambda target: -normalize(sum(table.total((2, 3), target)), len(target), options))
    found = search(table, beam_size=32, hypotheses=5, max_length=limit, length_penalty=alpha)
    assert [complete(hypothesis) for hypothesis in found] == ranked[:5]


@pytest.mark.parametrize("seed", range(20))
def test_greedy_search_chooses_the_most_probable_token(seed: int) -> None:
    table = Table(seed=seed)
    [greedy] = search(table, max_length=12)
    expected: list[int] = []
    while len(expected) < 12 and (not expected or expected[-1] != END):
        expected.append(int(table.log_probabilities((2, 3, START, *expected)).argmax()))
    assert complete(greedy) == tuple(expected)


Prefix = tuple[tuple[int, ...], float]
"""Tokens and their log-probability."""


def continuations(table: Table, live: list[Prefix]) -> list[Prefix]:
    """Returns the prefixes with one more token, the most probable first."""
    continued = [
        ((*tokens, token), total + float(table.log_probabilities((2, 3, START, *tokens))[token]))
        for tokens, total in live
        for token in range(table.size)
    ]
    return sorted(continued, key=lambda item: -item[1])


def marian_beam(table: Table, beam: int, limit: int) -> list[Prefix]:
    """Returns the finished targets of Marian's beam search, best first: the `beam` minus the finished ones best
    continuations live on or end, until all have ended or the limit is reached."""
    live: list[Prefix] = [((), 0.0)]
    finished: list[Prefix] = []
    while live:
        kept = continuations(table, live)[: beam - len(finished)]
        ends = [item[0][-1] == END or len(item[0]) == limit for item in kept]
        finished += [item for item, end in zip(kept, ends, strict=True) if end]
        live = [item for item, end in zip(kept, ends, strict=True) if not end]
    return sorted(((tokens, total / len(tokens)) for tokens, total in finished), key=lambda item: -item[1])


@pytest.mark.parametrize("seed", range(8))
def test_a_shrinking_beam_is_that_of_marian(seed: int) -> None:
    options = {"normalization": "average", "length_penalty": 1.0, "shrinking_beam": True, "max_length": 9}
    found = search(Table(size=6, seed=seed), beam_size=4, hypotheses=4, **options)
    expected = marian_beam(Table(size=6, seed=seed), 4, 9)
    assert [complete(hypothesis) for hypothesis in found] == [tokens for tokens, _ in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([score for _, score in expected], abs=1e-5)


def pruned_beam(table: Table, beam: int, limit: int, threshold: float) -> Prefix:
    """Returns the best target of a beam search without length normalization, and its log-probability. At every step
    only prefixes survive that are at most `threshold` worse than the best prefix."""
    live: list[Prefix] = [((), 0.0)]
    finished: list[Prefix] = []
    while live and len(live[0][0]) < limit:
        continued = continuations(table, live)
        finished += [item for item in continued[:beam] if item[0][-1] == END or len(item[0]) == limit]
        live = [item for item in continued if item[0][-1] != END][:beam]
        live = [item for item in live if item[1] >= live[0][1] - threshold]
    return max(finished, key=lambda item: item[1])


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.5, 4.0])
def test_a_beam_threshold_prunes_improbable_rows(threshold: float) -> None:
    pruning, steps = Generation(beam_threshold=threshold), {"pruned": 0, "whole": 0}
    for seed in range(20):
        pruned, whole = Table(size=6, seed=seed), Table(size=6, seed=seed)
        [found] = search(pruned, beam_size=4, length_penalty=0.0, max_length=9, generation=pruning)
        search(whole, beam_size=4, length_penalty=0.0, max_length=9)
        expected, total = pruned_beam(Table(size=6, seed=seed), 4, 9, threshold)
        assert complete(found) == expected
        assert found.score == pytest.approx(total, abs=1e-5)
        steps["pruned"] += pruned.steps
        steps["whole"] += whole.steps
    assert steps["pruned"] < steps["whole"]


def test_an_n_best_list_is_not_pruned() -> None:
    for seed in range(20):
        pruned, whole = [
            search(
                Table(size=6, seed=seed),
                beam_size=4,
                hypotheses=4,
                max_length=9,
                generation=Generation(beam_threshold=threshold),
            )
            for threshold in (0.1, None)
        ]
        assert len({complete(hypothesis) for hypothesis in pruned}) == 4
        assert pruned == whole


def test_a_list_for_reranking_is_pruned_less() -> None:
    def found(seed: int, n: int, threshold: float | None, *, rerank: bool) -> tuple[Hypothesis, ...]:
        generation = Generation(beam_threshold=threshold)
        table = Table(size=6, seed=seed)
        return search(table, beam_size=4, hypotheses=n, max_length=9, rerank=rerank, generation=generation)

    for seed in range(20):
        for stated, counted in ((0.1, RERANK_THRESHOLD), (3.0, 3.0), (None, None)):
            ranked = found(seed, 4, stated, rerank=True)
            assert ranked == found(seed, 4, counted, rerank=True)
            assert ranked[:1] == found(seed, 1, counted, rerank=False)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_prefix_is_kept_and_continued(beam: int) -> None:
    prefix = (3, 2, 2)
    for seed in range(10):
        table = Table(size=6, seed=seed)
        for hypothesis in search(table, beam_size=beam, hypotheses=beam, prefix=prefix, max_length=9):
            assert hypothesis.tokens[:3] == prefix
            assert hypothesis.token_scores == pytest.approx(table.total((2, 3), complete(hypothesis)), abs=1e-5)
        [free] = search(table, beam_size=1, prefix=search(table, max_length=9)[0].tokens, max_length=20)
        assert free.tokens[:9] == search(table, max_length=20)[0].tokens[:9]


@pytest.mark.parametrize("beam", [1, 3])
def test_searches_that_pause_find_the_same(beam: int) -> None:
    options, rng = DecodingOptions(beam_size=beam, max_length=12), random.Random(beam)
    sources = [(i % 4, 2, i // 4) for i in range(8)]
    expected = [search(Table(), source, beam_size=beam, max_length=12) for source in sources]
    driver = SearchDriver(Table(slots=8 * beam), end=END, max_length=60)
    running = {
        i: search_kind(options)(
            options, start=START, end=END, source=source, max_length=60, slots=range(i * beam, (i + 1) * beam)
        )
        for i, source in enumerate(sources)
    }
    driver.start(list(running.values()))
    found = {}
    while running:
        driver.step([item for item in running.values() if rng.random() < 0.4] or list(running.values()))
        for i in [i for i, item in running.items() if item.done]:
            found[i] = running.pop(i).hypotheses()
    assert [found[i] for i in range(8)] == expected


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "options",
    [{"target": (2, 3, 3, 2)}, {"prefix": (2, 3, 2)}, {"prefix": (2, 3, 2), "beam_size": 3, "hypotheses": 2},
     {"prefix": (2, 3, 2), "first_token": 3}, {"target": (2, 3), "trace": True}, {"prefix": (2,) * 15, "loop_guard": True},
     {"target": (2, 3) * 25}],
)  # fmt: skip
def test_known_tokens_read_together_give_the_same_search(
    seed: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.search.driver._KNOWN_TOKENS", 8)

    class Forcing(Table):
        def forced_steps(self, slots: Any, tokens: Any, forced: Any) -> Any:
            rows = zip(slots, tokens, forced, strict=True)
            assert sum(map(len, tokens)) <= 8  # so that nobody waits long
            return [
                np.array(
                    [
                        self.step([slot], [one], 1, [token]).scores[0, 0]
                        for one, token in zip(read, written, strict=True)
                    ]
                )
                for slot, read, written in rows
            ]

    assert search(Forcing(seed=seed), max_length=59, **options) == search(Table(seed=seed), max_length=59, **options)
