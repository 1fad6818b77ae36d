"""Tests that the CPU backend agrees with torch and that a row does not depend on the other rows.

The CPU backend promises equal bits whatever the batch, the slots and the threads; against PyTorch a
tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from model.backends.cpu.backend import CpuBackend, Precision
from model.model_folder import Generation
from model.search.backend_interface import StepOutput
from model.search.driver import translate
from model.search.options import DecodingOptions
from tests.support.models.cpu_models import (
    PRECISIONS,
    VARIANTS,
    cpu_backend,
    decode,
    needs_cpu_backend,
    sentences,
    tiny,
    torch_backend,
)

pytestmark = [needs_cpu_backend, pytest.mark.numeric]

TOLERANCE = {"float32": 1e-4, "int8": 0.2}
"""The int8 tolerance is larger because torch stores keys and values in float32 and the CPU backend
in int8."""


DECODERS = ("the paper's", "recurrence")


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_shape_agrees_with_torch(variant: str, precision: Precision) -> None:
    transformer = tiny(**VARIANTS[variant])
    config = transformer.config
    sources, targets = (
        sentences(config, (3, 17, 40, 1)),
        sentences(config.replace(source_vocab_size=None), (20,) * 4),
    )
    ours = decode(cpu_backend(transformer, precision), sources, [5, 0, 3, 7], targets)
    theirs = decode(
        torch_backend(transformer, precision),
        sources,
        [5, 0, 3, 7],
        targets,
        candidates=config.vocab_size,
    )
    for our, their in zip(ours, theirs, strict=True):
        everything = np.empty_like(their.scores)
        np.put_along_axis(everything, their.ids, their.scores, axis=1)
        assert (
            np.abs(np.take_along_axis(everything, our.ids, axis=1) - our.scores).max()
            < TOLERANCE[precision]
        )
        assert np.abs(our.scores - their.scores[:, :5]).max() < TOLERANCE[precision]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_row_does_not_depend_on_other_rows_slots_or_threads(
    decoder: str, precision: Precision, threads: int
) -> None:
    transformer = tiny(vocab_size=333, **VARIANTS[decoder])
    sources = sentences(transformer.config, (9, 1, 33, 16, 17, 40, 5, 2, 64, 12, 30, 8, 7))
    targets = sentences(transformer.config, (35,) * len(sources))
    alone = cpu_backend(transformer, precision)
    expected = [
        decode(alone, [source], [0], [target])
        for source, target in zip(sources, targets, strict=True)
    ]
    order = np.random.default_rng(1).permutation(len(sources)).tolist()
    together = cpu_backend(transformer, precision, threads=threads)
    slots = np.random.default_rng(2).permutation(16)[: len(sources)].tolist()
    outputs = decode(together, [sources[i] for i in order], slots, [targets[i] for i in order])
    for step, output in enumerate(outputs):
        for row, number in enumerate(order):
            assert np.array_equal(output.ids[row], expected[number][step].ids[0])
            assert np.array_equal(output.scores[row], expected[number][step].scores[0])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_many_rows_do_not_depend_on_threads(precision: Precision) -> None:
    """With 16 rows a thread and more, a thread may take rows of its own through a whole step."""
    transformer = tiny(vocab_size=333)
    random = np.random.default_rng(3)
    for rows in (31, 32, 47, 48, 65):
        sources = sentences(transformer.config, random.integers(1, 40, size=rows).tolist())
        targets = sentences(transformer.config, (4,) * rows)
        slots = random.permutation(rows).tolist()
        expected, *others = (
            decode(
                cpu_backend(transformer, precision, slots=rows, threads=threads),
                sources,
                slots,
                targets,
            )
            for threads in (1, 2, 3)
        )
        for outputs in others:
            for output, one in zip(outputs, expected, strict=True):
                assert np.array_equal(output.ids, one.ids)
                assert np.array_equal(output.scores, one.scores)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_beams_agree_with_torch(decoder: str, precision: Precision) -> None:
    transformer = tiny(**VARIANTS[decoder])
    sources = sentences(transformer.config, (5, 30, 18))
    config = transformer.config
    options = DecodingOptions(beam_size=4, hypotheses=4, max_length=40)
    backend = cpu_backend(transformer, precision, threads=2)
    ours = translate(backend, sources, options, config)
    theirs = translate(torch_backend(transformer, precision), sources, options, config)
    assert backend.pages_used == 0
    for our, their in zip(ours, theirs, strict=True):
        if precision == "float32":
            assert [hypothesis.tokens for hypothesis in our] == [
                hypothesis.tokens for hypothesis in their
            ]
        assert abs(our[0].score - their[0].score) < 0.3


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_reordered_beams_continue_bit_for_bit(decoder: str, precision: Precision) -> None:
    transformer = tiny(**VARIANTS[decoder])
    source, target = sentences(transformer.config, (20, 40))
    backend = cpu_backend(transformer, precision)
    expected = decode(backend, [source], [0], [target])
    random = np.random.default_rng(5)
    backend.prefill([source], [0])
    slots, kept = [0, 1, 2, 3], 0
    backend.reorder(slots, [0, 0, 0, 0])
    for step, token in enumerate(target):
        tokens = random.integers(4, 200, size=4).tolist()
        tokens[kept] = token
        output = backend.step(slots, tokens, 5, [-1] * 4)
        assert np.array_equal(output.scores[kept], expected[step].scores[0])
        # one row moves to another slot, the others are copied
        origins = random.integers(0, 4, size=4).tolist()
        moved = int(random.integers(0, 4))
        origins[moved] = kept
        backend.reorder(slots, origins)
        kept = moved
    backend.free(slots)
    assert backend.pages_used == 0


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("forbidden", [(), (5,), (9, 4, 17)])
def test_multi_step_equals_single_steps_without_forbidden_tokens(
    forbidden: tuple[int, ...], precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformer = tiny(vocab_size=40)
    transformer.embedding.weight.data[3] *= 3  # so that some rows end
    config = transformer.config
    sources = sentences(config, tuple(range(2, 10)))
    generation, options = Generation(forbidden=forbidden), DecodingOptions(max_length=30)
    single = cpu_backend(transformer, precision)
    single.end = -1  # not the model's: the driver takes single steps
    expected = translate(single, sources, options, config, generation)
    backend, calls = cpu_backend(transformer, precision), []

    def counted(self: CpuBackend, *given: Any) -> list[StepOutput]:
        calls.append(given[3])
        return multi_step(self, *given)

    multi_step = CpuBackend.multi_step
    monkeypatch.setattr(CpuBackend, "multi_step", counted)
    assert translate(backend, sources, options, config, generation) == expected
    assert set(calls) == {forbidden}
    written = {token for best in expected for token in best[0].tokens}
    assert len({len(best[0].tokens) for best in expected}) > 1  # rows end at different steps
    assert not written & set(forbidden)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("threads", [1, 3])
def test_forced_steps_equal_single_steps(decoder: str, precision: Precision, threads: int) -> None:
    transformer = tiny(vocab_size=900, **VARIANTS[decoder])
    config = transformer.config
    sources, targets = sentences(config, (9, 1, 30, 4) * 4), sentences(config, (20, 2, 60, 17) * 4)
    slots = list(range(16))
    backend = cpu_backend(transformer, precision, threads=threads)
    expected = []
    for source, target in zip(sources, targets, strict=True):
        backend.prefill([source], [0])
        steps = [
            backend.step([0], [read], 1, [token])
            for read, token in zip([2, *target], target, strict=False)
        ]
        expected.append([float(step.scores[0, 0]) for step in steps])
    backend.prefill(sources, slots)
    halves = [len(target) // 2 for target in targets]
    first = backend.forced_steps(
        slots,
        [[2, *target[: n - 1]] for target, n in zip(targets, halves, strict=True)],
        [target[:n] for target, n in zip(targets, halves, strict=True)],
    )
    backend.reorder(slots, [*slots[1:], 0])  # the rows move; copies share their last page
    backend.reorder([15], [0])
    moved = [1, *range(2, 16), 1]
    second = backend.forced_steps(
        slots,
        [targets[i][halves[i] - 1 : -1] for i in moved],
        [targets[i][halves[i] :] for i in moved],
    )
    for slot, i in enumerate(moved):
        assert [*first[i].tolist(), *second[slot].tolist()] == expected[i]
    backend.free(slots)
    assert backend.pages_used == 0


def test_forced_steps_of_several_passes_equal_those_of_one() -> None:
    transformer = tiny()
    slots = list(range(24))
    sources, targets = (
        sentences(transformer.config, (9,) * 24),
        sentences(transformer.config, (60, 2, 59) * 8),
    )
    assert sum(map(len, targets)) > 512
    backend, alone = cpu_backend(transformer, "int8", slots=24), cpu_backend(transformer, "int8")
    backend.prefill(sources, slots)
    found = backend.forced_steps(slots, [[2, *target[:-1]] for target in targets], targets)
    for source, target, scores in zip(sources, targets, found, strict=True):
        alone.prefill([source], [0])
        assert scores.tolist() == alone.forced_steps([0], [[2, *target[:-1]]], [target])[0].tolist()


@pytest.mark.parametrize(
    "options",
    [{"target": (5, 9, 9, 40)}, {"prefix": (7, 8, 9)}, {"prefix": (7,) * 9, "beam_size": 3}],
)
def test_forced_decoding_in_one_pass_equals_single_steps(options: dict[str, Any]) -> None:
    transformer = tiny()
    config = transformer.config
    sources = sentences(config, (5, 30, 18, 2, 9))
    mixed = [DecodingOptions(**options, max_length=20), DecodingOptions(max_length=20)] * 2 + [
        DecodingOptions(**options)
    ]
    backend, stepwise = cpu_backend(transformer, "int8"), cpu_backend(transformer, "int8")
    calls = []
    forced_steps = backend.forced_steps
    backend.forced_steps = lambda *given: calls.append(given) or forced_steps(*given)  # type: ignore[method-assign]
    single = OneStepAtATime(stepwise)
    assert translate(backend, sources, mixed, config) == translate(single, sources, mixed, config)
    assert calls


class OneStepAtATime:
    """A backend without forced_steps and multi_step."""

    def __init__(self, inner: CpuBackend) -> None:
        self.slots, self.prefill, self.step = inner.slots, inner.prefill, inner.step
        self.reorder, self.free = inner.reorder, inner.free


@pytest.mark.parametrize(
    ("slots", "tokens", "forced"),
    [([0], [[]], [[]]), ([0, 0], [[2], [2]], [[5], [5]]), ([0], [[2, 5]], [[5]]), ([0], [[2]], [[200]]), ([0], [[2]], [[-1]]),
     ([0], [[2] * 65], [[5] * 65])],
)  # fmt: skip
def test_impossible_forced_steps_are_refused(
    slots: list[int], tokens: list[list[int]], forced: list[list[int]]
) -> None:
    backend = cpu_backend(tiny(), "float32")
    backend.prefill([[5, 6]], [0])
    with pytest.raises(ValueError, match="forced"):
        backend.forced_steps(slots, tokens, forced)
    assert len(backend.forced_steps([0], [[2, 5]], [[5, 6]])[0]) == 2


def test_forced_tokens_are_first_with_their_score() -> None:
    transformer = tiny()
    sources = sentences(transformer.config, (5, 6))
    for backend in (cpu_backend(transformer, "float32"), torch_backend(transformer, "float32")):
        backend.prefill(sources, [0, 1])
        output = backend.step([0, 1], [2, 2], 3, [150, -1])
        assert output.ids[0, 0] == 150
        everything = cpu_backend(transformer, "float32")
        everything.prefill(sources, [0, 1])
        free = everything.step([0, 1], [2, 2], 200, [-1, -1])
        assert abs(free.scores[0][free.ids[0] == 150] - output.scores[0, 0]) < 1e-4
        assert output.ids[0, 1] == free.ids[0, 0]
        assert output.ids[1].tolist() == free.ids[1, :3].tolist()


def test_equal_logits_are_ordered_by_id() -> None:
    transformer = tiny(tied_embeddings=False, vocab_size=150)
    transformer.projection.weight.data.zero_()
    for threads in (1, 3):
        backend = cpu_backend(transformer, "float32", threads=threads)
        backend.prefill(sentences(transformer.config, (4,)), [0])
        assert backend.step([0], [2], 9, [-1]).ids[0].tolist() == list(range(9))


def test_scores_are_the_logarithm_of_softmax_however_far_logits_lie_apart() -> None:
    transformer = tiny(tied_embeddings=False, vocab_size=150, output_bias=True)
    transformer.projection.weight.data.zero_()
    draw = np.random.default_rng(1)
    for spread in (1, 20, 87, 88, 104, 130, 1e4):
        logits = -draw.uniform(0, spread, 150).astype(np.float32)
        transformer.output_bias.data.numpy()[:] = logits
        backend = cpu_backend(transformer, "float32")
        backend.prefill(sentences(transformer.config, (4, 5)), [0, 1])
        output = backend.step([0, 1], [2, 2], 150, [-1, -1])
        exact = logits - np.log(np.exp(logits.astype(np.float64)).sum())
        for ids, scores in zip(output.ids, output.scores, strict=True):
            assert np.allclose(scores, exact[ids], rtol=1e-6, atol=1e-5)
