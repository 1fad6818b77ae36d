"""Searches: tokens, scores, limits, refused options, and scores that are NaN."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from model.backends.cuda.graphs import GraphedBackend
from model.backends.torch.backend import TorchBackend
from model.model_folder import Generation
from model.search.backend_interface import Backend
from model.search.driver import SearchDriver, search_kind, translate
from model.search.options import LENGTH_PENALTY, RERANK_THRESHOLD, DecodingOptions, Hypothesis
from model.search.search import NotFiniteError, normalize
from model.transformer import Transformer
from tests.support.models.cpu_models import LIBRARY, cpu_backend, tiny
from tests.support.models.random_models import VARIANTS, best, decode, random_ids, random_model
from tests.support.models.table_search import CONFIG, END, START, Table, complete, search

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_an_exhaustive_beam_finds_the_best_targets(seed: int, alpha: float) -> None:
    table, limit = Table(size=3, slots=32, seed=seed), 4
    others = [token for token in range(table.size) if token != END]
    targets = [
        (*tokens, END)
        for length in range(limit)
        for tokens in itertools.product(others, repeat=length)
    ] + list(itertools.product(others, repeat=limit))
    options = DecodingOptions(beam_size=32, hypotheses=5, max_length=limit, length_penalty=alpha)
    ranked = sorted(
        targets,
        key=lambda target: -normalize(sum(table.total((2, 3), target)), len(target), options),
    )
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
    """Returns the finished targets of Marian's beam search, best first: the `beam` minus the
    finished ones best continuations live on or end, until all have ended or the limit is
    reached."""
    live: list[Prefix] = [((), 0.0)]
    finished: list[Prefix] = []
    while live:
        kept = continuations(table, live)[: beam - len(finished)]
        ends = [item[0][-1] == END or len(item[0]) == limit for item in kept]
        finished += [item for item, end in zip(kept, ends, strict=True) if end]
        live = [item for item, end in zip(kept, ends, strict=True) if not end]
    return sorted(
        ((tokens, total / len(tokens)) for tokens, total in finished), key=lambda item: -item[1]
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_shrinking_beam_is_that_of_marian(seed: int) -> None:
    options = {
        "normalization": "average",
        "length_penalty": 1.0,
        "shrinking_beam": True,
        "max_length": 9,
    }
    found = search(Table(size=6, seed=seed), beam_size=4, hypotheses=4, **options)
    expected = marian_beam(Table(size=6, seed=seed), 4, 9)
    assert [complete(hypothesis) for hypothesis in found] == [tokens for tokens, _ in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(
        [score for _, score in expected], abs=1e-5
    )


def pruned_beam(table: Table, beam: int, limit: int, threshold: float) -> Prefix:
    """Returns the best target of a beam search without length normalization, and its
    log-probability. At every step only prefixes survive that are at most `threshold` worse than the
    best prefix."""
    live: list[Prefix] = [((), 0.0)]
    finished: list[Prefix] = []
    while live and len(live[0][0]) < limit:
        continued = continuations(table, live)
        finished += [
            item for item in continued[:beam] if item[0][-1] == END or len(item[0]) == limit
        ]
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
    def found(
        seed: int, n: int, threshold: float | None, *, rerank: bool
    ) -> tuple[Hypothesis, ...]:
        generation = Generation(beam_threshold=threshold)
        table = Table(size=6, seed=seed)
        return search(
            table, beam_size=4, hypotheses=n, max_length=9, rerank=rerank, generation=generation
        )

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
        for hypothesis in search(
            table, beam_size=beam, hypotheses=beam, prefix=prefix, max_length=9
        ):
            assert hypothesis.tokens[:3] == prefix
            assert hypothesis.token_scores == pytest.approx(
                table.total((2, 3), complete(hypothesis)), abs=1e-5
            )
        [free] = search(
            table, beam_size=1, prefix=search(table, max_length=9)[0].tokens, max_length=20
        )
        assert free.tokens[:9] == search(table, max_length=20)[0].tokens[:9]


@pytest.mark.parametrize("beam", [1, 3])
def test_searches_that_pause_find_the_same(beam: int) -> None:
    options, rng = DecodingOptions(beam_size=beam, max_length=12), random.Random(beam)
    sources = [(i % 4, 2, i // 4) for i in range(8)]
    expected = [search(Table(), source, beam_size=beam, max_length=12) for source in sources]
    driver = SearchDriver(Table(slots=8 * beam), CONFIG)
    running = {
        i: search_kind(options)(options, CONFIG, source, slots=range(i * beam, (i + 1) * beam))
        for i, source in enumerate(sources)
    }
    driver.start(list(running.values()))
    found = {}
    while running:
        driver.step(
            [item for item in running.values() if rng.random() < 0.4] or list(running.values())
        )
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

    assert search(Forcing(seed=seed), max_length=59, **options) == search(
        Table(seed=seed), max_length=59, **options
    )


@pytest.mark.parametrize("beam", [1, 2, 4, 7])
@pytest.mark.parametrize("normalization", ["gnmt", "average"])
def test_scores_are_normalized_sums_of_token_scores(beam: int, normalization: Any) -> None:
    for seed in range(10):
        table = Table(size=6, seed=seed)
        found = search(
            table, beam_size=beam, hypotheses=beam, normalization=normalization, max_length=9
        )
        assert len(found) == beam
        assert len({hypothesis.tokens for hypothesis in found}) == beam
        assert [hypothesis.score for hypothesis in found] == sorted(
            (h.score for h in found), reverse=True
        )
        for hypothesis in found:
            target = complete(hypothesis)
            assert hypothesis.token_scores == pytest.approx(table.total((2, 3), target), abs=1e-5)
            length = len(target)
            penalty = ((5 + length) / 6) ** 0.6 if normalization == "gnmt" else length**0.6
            assert hypothesis.score == pytest.approx(
                sum(hypothesis.token_scores) / penalty, abs=1e-5
            )
            assert (hypothesis.finish_reason == "stop") == (
                len(hypothesis.tokens) < len(hypothesis.token_scores)
            )


@pytest.mark.parametrize("variant", VARIANTS)
def test_forced_scores_equal_the_teacher_forced_pass(variant: str) -> None:
    transformer = random_model(variant)
    config = transformer.config
    [source] = random_ids(config, 1)
    target = (5, 9, 14, 5)
    [[scored]] = decode(transformer, [source], target=target)
    with torch.inference_mode():
        read = torch.tensor([[config.decoder_start_id, *target]])
        logits = transformer(
            torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool), read
        )[0]
    expected = torch.log_softmax(logits, -1)[range(5), [*target, config.eos_id]]
    assert scored.token_scores == pytest.approx(expected.tolist(), abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_trace_contains_every_step_of_the_search(beam: int) -> None:
    transformer = random_model()
    config = transformer.config
    [source] = random_ids(config, 1)
    options = DecodingOptions(beam_size=beam, trace=True, max_length=12)
    searching = search_kind(options)(options, config, source, slots=range(beam))
    driver = SearchDriver(TorchBackend(transformer, beam), config)
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


def test_early_stopping_takes_fewer_steps() -> None:
    early = [Table(size=6, seed=seed) for seed in range(20)]
    full = [Table(size=6, seed=seed) for seed in range(20)]
    for table in early:
        search(
            table,
            beam_size=3,
            max_length=30,
            early_stopping=True,
            length_penalty=1.0,
            normalization="average",
        )
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
    [
        ({"prefix": (2,) * 60}, "prefix has 60 tokens"),
        ({"target": (2,) * 60}, "target has 60 tokens"),
    ],
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
    assert DecodingOptions(beam_size=0, hypotheses=3).with_defaults(1) == DecodingOptions(
        beam_size=3, hypotheses=3
    )
    assert DecodingOptions(beam_size=2).with_defaults(6).beam_size == 2


def test_the_model_states_what_requests_leave_open() -> None:
    stated = Generation(length_penalty=1.4)
    assert DecodingOptions(beam_size=4).with_defaults(1, stated) == DecodingOptions(
        beam_size=4, length_penalty=1.4
    )
    assert DecodingOptions(length_penalty=0.0).with_defaults(1, stated).length_penalty == 0.0
    others: dict[str, Any] = {
        "normalization": "average",
        "early_stopping": True,
        "no_repeat_ngram_size": 3,
    }
    stated = Generation(length_penalty=1.4, **others)
    assert DecodingOptions().with_defaults(1, stated) == DecodingOptions(
        length_penalty=1.4, **others
    )
    own = DecodingOptions(length_penalty=0.5, no_repeat_ngram_size=2)
    assert own.with_defaults(1, stated) == replace(own, early_stopping=True)
    assert normalize(-3.0, 7, DecodingOptions()) == normalize(
        -3.0, 7, DecodingOptions(length_penalty=LENGTH_PENALTY)
    )


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


def run(
    backend: Backend, sources: list[list[int]], options: DecodingOptions
) -> list[tuple[Hypothesis, ...] | None]:
    """Decodes the sources as one batch: the hypotheses of each, None where its numbers are not
    finite."""
    config = model().config
    driver = SearchDriver(backend, config)
    width = search_kind(options)(options, config, sources[0]).width
    items = [
        search_kind(options)(options, config, source, slots=range(width * i, width * i + width))
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
        translate(one, [bad], options, model().config)
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
            0
            <= one.step([0], [2], candidates, [-1]).ids.min()
            <= one.step([0], [2], candidates, [-1]).ids.max()
            < 200
        )
    forbidden = (0, 1, 5)
    if hasattr(one, "multi_step"):
        for output in one.multi_step([0], [2], 4, forbidden):
            assert 0 <= output.ids.min() <= output.ids.max() < 200
