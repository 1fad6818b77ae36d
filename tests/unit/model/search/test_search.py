"""Tests of greedy and beam search: results, scores and traces.

Search on a table promises equal results; scores of PyTorch promise 1e-4, because the order of its float32 sums depends
on the processor and the shape.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from model.backends.torch.backend import TorchBackend
from model.search.base import StepOutput, normalize
from model.search.driver import RunningSearch, SearchDriver, translate
from model.search.options import DecodingOptions, Hypothesis
from model.search.strategy import new_search
from model.transformer import Transformer
from tests.support.random_models import VARIANTS, best, decode, random_ids, random_model

pytestmark = pytest.mark.numeric

END, START = 0, 1


class Table:
    """A backend whose next-token distribution is a function of the previous tokens. It counts the steps."""

    def __init__(self, size: int = 4, slots: int = 8, seed: int = 0) -> None:
        self.size, self.slots, self.seed = size, slots, seed
        self.rows: dict[int, tuple[int, ...]] = {}
        self.steps = 0

    def log_probabilities(self, prefix: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
        logits = np.random.default_rng([self.seed, *prefix]).normal(size=self.size) * 1.5
        return logits - np.log(np.exp(logits).sum())

    def prefill(self, sources: Sequence[Sequence[int]], slots: Sequence[int], masked_heads: Any = ()) -> None:
        for source, slot in zip(sources, slots, strict=True):
            self.rows[slot] = tuple(source)

    def step(self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]) -> StepOutput:
        ids, scores = [], []
        for slot, token, wanted in zip(slots, tokens, forced, strict=True):
            self.steps += 1
            self.rows[slot] = (*self.rows[slot], token)
            row = self.log_probabilities(self.rows[slot])
            order = [int(i) for i in np.argsort(-row)][:candidates]
            if wanted >= 0:
                order = [wanted, *order][:candidates]
            ids.append(order)
            scores.append(row[order])
        return StepOutput(np.array(ids, dtype=np.int64), np.array(scores, dtype=np.float32))

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        before = dict(self.rows)
        for target, origin in zip(targets, origins, strict=True):
            self.rows[target] = before[origin]

    def free(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.rows.pop(slot, None)

    def total(self, source: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Returns the log-probability of each token of a target of `source`."""
        read = (*source, START)
        return [float(self.log_probabilities((*read, *tokens[:i]))[token]) for i, token in enumerate(tokens)]


def search(table: Table, source: Sequence[int] = (2, 3), **options: Any) -> tuple[Hypothesis, ...]:
    return translate(table, [source], DecodingOptions(**options), start=START, end=END, max_length=60)[0]


def complete(hypothesis: Hypothesis) -> tuple[int, ...]:
    """Returns the tokens, with the end of sentence if the hypothesis is finished."""
    return (*hypothesis.tokens, END) if hypothesis.finish_reason == "stop" else hypothesis.tokens


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


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_beam_1_equals_a_greedy_loop_over_the_transformer(variant: str) -> None:
    transformer = random_model(variant)
    config = transformer.config
    for source, tokens in zip(
        sources := random_ids(config, 6), best(decode(transformer, sources, max_length=10)), strict=True
    ):
        written = [config.decoder_start_id]
        with torch.inference_mode():
            for _ in range(10):
                mask = torch.ones(1, len(source), dtype=torch.bool)
                logits = transformer(torch.tensor([source]), mask, torch.tensor([written]))
                written.append(int(logits[0, -1].argmax()))
                if written[-1] == config.eos_id:
                    break
        assert tokens == tuple(token for token in written[1:] if token != config.eos_id)


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


def test_early_stopping_takes_fewer_steps() -> None:
    early = [Table(size=6, seed=seed) for seed in range(20)]
    full = [Table(size=6, seed=seed) for seed in range(20)]
    for table in early:
        search(table, beam_size=3, max_length=30, early_stopping=True, length_penalty=1.0, normalization="average")
    for table in full:
        search(table, beam_size=3, max_length=30, length_penalty=1.0, normalization="average")
    assert all(a.steps <= b.steps for a, b in zip(early, full, strict=True))
    assert sum(table.steps for table in early) < sum(table.steps for table in full)


def marian_beam(table: Table, beam: int, limit: int) -> list[tuple[tuple[int, ...], float]]:
    """Returns the finished targets of Marian's beam search, best first: the `beam` minus the finished ones best
    continuations live on or end, until all have ended or the limit is reached."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[tuple[tuple[int, ...], float]] = []
    while live:
        continued = [
            ((*tokens, token), total + float(table.log_probabilities((2, 3, START, *tokens))[token]))
            for tokens, total in live
            for token in range(table.size)
        ]
        kept = sorted(continued, key=lambda item: -item[1])[: beam - len(finished)]
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


@pytest.mark.parametrize("beam", [1, 4])
def test_one_forward_pass_for_each_new_token(beam: int) -> None:
    table = Table(size=6, seed=3)
    found = search(table, beam_size=beam, max_length=10)
    longest = max(len(hypothesis.token_scores) for hypothesis in found)
    assert table.steps <= beam * 10
    assert beam > 1 or table.steps == longest


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


def test_forced_scoring_is_the_sum_of_token_scores() -> None:
    table, target = Table(size=6, seed=5), (4, 2, 5, 5, 3)
    [scored] = search(table, target=target)
    assert scored.tokens == target
    assert scored.token_scores == pytest.approx(table.total((2, 3), (*target, END)), abs=1e-5)
    assert scored.score == pytest.approx(sum(scored.token_scores) / ((5 + 6) / 6) ** 0.6, abs=1e-5)
    assert scored.finish_reason == "stop"


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


def test_forced_scores_equal_the_scores_of_the_search() -> None:
    transformer = random_model()
    sources = random_ids(transformer.config, 12)
    for source, listed in zip(
        sources, decode(transformer, sources, beam_size=4, hypotheses=4, max_length=20), strict=True
    ):
        for hypothesis in listed:
            if hypothesis.finish_reason == "stop":
                [[forced]] = decode(transformer, [source], target=hypothesis.tokens)
                assert forced.token_scores == pytest.approx(hypothesis.token_scores, abs=1e-4)
                assert forced.score == pytest.approx(hypothesis.score, abs=1e-4)


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


@pytest.mark.parametrize("beam", [1, 3])
def test_a_trace_contains_every_step_of_the_search(beam: int) -> None:
    transformer = random_model()
    config = transformer.config
    [source] = random_ids(config, 1)
    searching = new_search(
        DecodingOptions(beam_size=beam, trace=True, max_length=12),
        start=config.decoder_start_id,
        end=config.eos_id,
        source=source,
        max_length=config.max_length,
    )
    follow(transformer, source, searching)
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


def follow(transformer: Transformer, source: list[int], searching: Any) -> None:
    backend = TorchBackend(transformer, searching.width)
    backend.prefill([source], [0])
    while not searching.done:
        rows = list(range(len(searching.tokens)))
        output = backend.step(rows, searching.tokens, searching.candidates, searching.forced)
        parents = searching.advance(output.ids.tolist(), output.scores.tolist())
        backend.reorder(list(range(len(parents))), parents)


def test_masked_heads_apply_to_one_sentence() -> None:
    transformer = random_model()
    sources = random_ids(transformer.config, 4)
    backend = TorchBackend(transformer, 4)
    heads = (("cross", 0, 0), ("cross", 1, 1))
    start = [transformer.config.decoder_start_id] * 4
    backend.prefill(sources, [0, 1, 2, 3], [heads, (), heads, ()])
    mixed = backend.step([0, 1, 2, 3], start, 3, [-1] * 4)
    for masks, rows in ((heads, (0, 2)), ((), (1, 3))):
        alone = TorchBackend(transformer, 4)
        alone.prefill(sources, [0, 1, 2, 3], [masks] * 4)
        output = alone.step([0, 1, 2, 3], start, 3, [-1] * 4)
        for row in rows:
            assert np.allclose(output.scores[row], mixed.scores[row], atol=1e-5)


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
        {"length_penalty": -0.1},
        {"length_penalty": math.nan},
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        DecodingOptions(**options)


def test_the_model_states_the_beam_of_requests_that_set_none() -> None:
    assert DecodingOptions(beam_size=0).with_beam(6) == DecodingOptions(beam_size=6)
    assert DecodingOptions(beam_size=0, hypotheses=3).with_beam(1) == DecodingOptions(beam_size=3, hypotheses=3)
    assert DecodingOptions(beam_size=2).with_beam(6).beam_size == 2


@pytest.mark.parametrize("beam", [1, 3])
def test_searches_that_pause_find_the_same(beam: int) -> None:
    options, rng = DecodingOptions(beam_size=beam, max_length=12), random.Random(beam)
    sources = [(i % 4, 2, i // 4) for i in range(8)]
    expected = [search(Table(), source, beam_size=beam, max_length=12) for source in sources]
    driver = SearchDriver(Table(slots=8 * beam), end=END, max_length=60)
    running = {
        i: RunningSearch(
            new_search(options, start=START, end=END, source=source, max_length=60),
            source,
            range(i * beam, (i + 1) * beam),
        )
        for i, source in enumerate(sources)
    }
    driver.start(list(running.values()))
    found = {}
    while running:
        driver.step([item for item in running.values() if rng.random() < 0.4] or list(running.values()))
        for i in [i for i, item in running.items() if item.search.done]:
            found[i] = running.pop(i).search.hypotheses()
    assert [found[i] for i in range(8)] == expected
