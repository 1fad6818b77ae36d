"""Tests that attention maps of the CPU backend equal the weights of its decoding bit for bit.

Against PyTorch the promise is a tolerance: 1e-5 in maps for float32 (the order of sums), 0.02 for int8.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from model.analysis.types import EVERYTHING, Followed, Head, HeadMask
from model.backends.cpu.attention_capture import AttentionCapture
from model.backends.cpu.backend import MOST_HELD, CpuBackend, Precision
from model.backends.cpu.bindings import CpuBackendError
from model.backends.interface import finished
from model.backends.torch.attention_maps import attention_maps
from tests.support.models.cpu_models import (
    PRECISIONS,
    VARIANTS,
    cpu_backend,
    needs_cpu_backend,
    sentences,
    tiny,
    torch_backend,
)

pytestmark = [needs_cpu_backend, pytest.mark.numeric]


def decoded(
    backend: CpuBackend, source: list[int], target: list[int], slot: int, masked: HeadMask = ()
) -> tuple[AttentionCapture, list[float]]:
    """Returns attention weights and scores of the target, captured from an incremental decode."""
    config = backend.config
    capture = AttentionCapture(config, len(source), len(target) + 1)
    backend.prefill([source], [slot], [masked])
    scores = []
    for read, written in zip([config.decoder_start_id, *target], [*target, config.eos_id], strict=True):
        scores.append(float(backend.step([slot], [read], 1, [written], capture).scores[0, 0]))
    backend.free([slot])
    return capture, scores


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_maps_equal_the_incremental_decode(variant: str, precision: Precision) -> None:
    transformer = tiny(**VARIANTS[variant])
    backend = cpu_backend(transformer, precision)
    config = transformer.config
    for length, written in ((17, 33), (1, 0), (64, 15), (50, 63)):
        [source] = sentences(config, (length,))
        [target] = sentences(config.replace(source_vocab_size=None), (written,))
        maps = backend.attention_maps(source, target)
        capture, scores = decoded(backend, source, target, slot=3)
        assert np.array_equal(maps.cross, capture.cross)
        assert np.array_equal(maps.decoder, capture.decoder)
        assert np.array_equal(maps.forget_gates, capture.forget_gates)
        assert maps.token_scores.tolist() == scores
        assert backend.pages_used == 0


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("int8", 0.02)])
def test_maps_agree_with_torch(variant: str, precision: Precision, tolerance: float) -> None:
    """The int8 tolerance is larger because torch stores keys and values in float32 and the CPU backend in int8."""
    transformer = tiny(**VARIANTS[variant])
    backend = cpu_backend(transformer, precision)
    config = transformer.config
    [source], [target] = sentences(config, (21,)), sentences(config.replace(source_vocab_size=None), (30,))
    heads: list[Head | None] = [None, ("cross", 0, 0), ("encoder", 0, config.heads - 1)]
    if config.decoder_heads:
        heads.append(("decoder", config.decoder_layers - 1, 0))
    for head in heads:
        ours = backend.attention_maps(source, target, (), head)
        theirs = attention_maps(torch_backend(transformer, precision).transformer, source, target, (), head)
        for kind in ("encoder", "decoder", "cross"):
            np.testing.assert_allclose(getattr(ours, kind), getattr(theirs, kind), atol=tolerance)
        products, scale = theirs.value_products, np.abs(theirs.value_products).max()
        np.testing.assert_allclose(ours.value_products, products, atol=3 * tolerance * scale)
        assert (ours.forget_gates is None) == (config.recurrence == "none")
        if ours.forget_gates is not None and theirs.forget_gates is not None:
            assert ours.forget_gates.shape == (config.decoder_layers, len(target) + 1)
            np.testing.assert_allclose(ours.forget_gates, theirs.forget_gates, atol=tolerance)
        if precision == "float32":
            np.testing.assert_allclose(ours.token_scores, theirs.token_scores, atol=1e-4)
            assert np.array_equal(ours.candidate_ids[:, 0], theirs.candidate_ids[:, 0])
        if head is not None:
            assert ours.vectors is not None and theirs.vectors is not None
            exact = attention_maps(transformer, source, target, (), head).vectors
            for part in ("query", "key", "value"):
                # Keys are shown with their bias, which int8 leaves out of the computation.
                keys = part == "key" and head[0] == "cross"
                our, their = getattr(ours.vectors, part), getattr(exact if keys else theirs.vectors, part)
                np.testing.assert_allclose(our, their, atol=1e-4 if precision == "float32" else 0.1)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("int8", 0.02)])
def test_maps_with_masked_heads_equal_decoding_with_masked_heads(precision: Precision, tolerance: float) -> None:
    transformer = tiny(heads=4)
    backend, other = cpu_backend(transformer, precision), torch_backend(transformer, precision).transformer
    [source], [target] = sentences(transformer.config, (23,)), sentences(transformer.config, (30,))
    plain = backend.attention_maps(source, target)
    for masked in ((("cross", 1, 2),), (("decoder", 0, 0), ("decoder", 1, 3)), (("encoder", 1, 1), ("cross", 0, 0))):
        maps = backend.attention_maps(source, target, masked)
        capture, scores = decoded(backend, source, target, 2, masked)
        assert np.array_equal(maps.cross, capture.cross) and np.array_equal(maps.decoder, capture.decoder)
        assert maps.token_scores.tolist() == scores
        theirs = attention_maps(other, source, target, masked)
        for kind in ("encoder", "decoder", "cross"):
            np.testing.assert_allclose(getattr(maps, kind), getattr(theirs, kind), atol=tolerance)
        assert not np.allclose(maps.token_scores, plain.token_scores)
    assert np.array_equal(backend.attention_maps(source, target).cross, plain.cross)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_attention_maps_do_not_depend_on_threads_or_change_other_slots(precision: Precision) -> None:
    transformer = tiny(vocab_size=333)
    [source], [target] = sentences(transformer.config, (33,)), sentences(transformer.config, (40,))
    alone = cpu_backend(transformer, precision)
    expected, rest = alone.attention_maps(source, target), decoded(alone, source, target, slot=0)[1]
    busy = cpu_backend(transformer, precision, threads=3)
    busy.prefill([source, target], [0, 15])
    for place, token in enumerate([2, *target]):
        found = busy.attention_maps(source, target)
        for part in ("encoder", "decoder", "cross", "token_scores", "candidate_ids", "candidate_scores"):
            assert np.array_equal(getattr(found, part), getattr(expected, part))
        forced = [*target, transformer.config.eos_id][place]
        assert busy.step([15, 0], [5, token], 1, [-1, forced]).scores[1, 0] == np.float32(rest[place])
    busy.free([0, 15])
    assert busy.pages_used == 0


PARTS = ("encoder", "decoder", "cross", "token_scores", "candidate_ids", "candidate_scores", "value_products")


@pytest.mark.parametrize(
    ("variant", "precision"),
    [
        ("the paper's", "float32"),
        ("pre-norm", "int8"),
        ("swish, half-and-half, bias, zero start", "int8"),
        ("recurrence, pre-norm, two vocabularies", "int8"),
        ("deep encoder, odd ids", "int8"),
        ("large epsilon, deep decoder", "float32"),
    ],
)
def test_a_pass_in_parts_has_the_bits_of_one_and_lets_steps_and_other_passes_run_between(
    monkeypatch: pytest.MonkeyPatch, variant: str, precision: Precision
) -> None:
    transformer = tiny(**VARIANTS[variant])
    config = transformer.config
    (long, short), written = sentences(config, (50, 9)), config.replace(source_vocab_size=None)
    [target], [other] = sentences(written, (41,)), sentences(written, (17,))
    backend = cpu_backend(transformer, precision)
    masked = (("cross", 0, 0), ("encoder", 0, 0))
    choice = dataclasses.replace(EVERYTHING, followed=Followed("decoder", 0, position=20))
    whole, alone = backend.attention_maps(long, target, masked, choice=choice), backend.attention_maps(short, other)
    expected = decoded(backend, short, other, slot=1)[1]
    for name, value in (("PART_TOKENS", 1), ("LEAST_ROWS", 7), ("PART_WORK", 1)):
        monkeypatch.setattr(f"model.backends.cpu.backend.{name}", value)
    backend.prefill([short], [1])
    passes, steps = backend.attention_passes(long, target, masked, choice=choice), 0
    found = None
    for read, wanted in zip([config.decoder_start_id, *other], [*other, config.eos_id], strict=True):
        scores = backend.step([1], [read], 1, [wanted]).scores[0, 0]
        assert scores == np.float32(expected[steps])
        steps += 1
        if steps % 5 == 0:
            between = backend.attention_maps(short, other)
            assert all(np.array_equal(getattr(between, part), getattr(alone, part)) for part in PARTS)
        try:
            next(passes)
        except StopIteration as end:
            found = end.value
            break
    found = finished(passes) if found is None else found
    assert steps >= config.encoder_layers
    assert found.tensors is not None and whole.tensors is not None
    assert all(np.array_equal(values, whole.tensors[name]) for name, values in found.tensors.items())
    assert np.array_equal(found.normalizers, whole.normalizers)
    assert all(np.array_equal(getattr(found, part), getattr(whole, part)) for part in PARTS)
    backend.free([1])
    assert backend.pages_used == 0


def test_passes_that_are_given_up_hold_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.backends.cpu.backend.PART_TOKENS", 1)
    transformer = tiny()
    [source], [target] = sentences(transformer.config, (30,)), sentences(transformer.config, (30,))
    backend = cpu_backend(transformer, "int8")
    whole = backend.attention_maps(source, target)
    begun = [backend.attention_passes(source, target) for _ in range(MOST_HELD)]
    for passes in begun:
        next(passes)
    with pytest.raises(RuntimeError, match="Too many"):
        next(backend.attention_passes(source, target))
    assert backend.pages_used
    for passes in begun:
        passes.close()
    assert backend.pages_used == 0
    assert np.array_equal(backend.attention_maps(source, target).cross, whole.cross)


def test_invalid_attention_requests_are_refused() -> None:
    transformer = tiny()
    backend = cpu_backend(transformer, "int8")
    for source, target in (([], [5]), ([200], [5]), ([-1], [5]), ([5], [200]), ([5], [5] * 64), ([5] * 65, [5])):
        with pytest.raises(ValueError, match=r"The (source|target)"):
            backend.attention_maps(source, target)
    with pytest.raises(ValueError, match="no nowhere head 0"):
        backend.attention_maps([5], [5], (("nowhere", 0, 0),))
    with pytest.raises(ValueError, match="no cross head 9"):
        backend.attention_maps([5], [5], (("cross", 0, 9),))
    with pytest.raises(ValueError, match="no cross head 9"):
        backend.attention_maps([5], [5], (), ("cross", 0, 9))
    backend.prefill([[5, 6]], [0])
    for capture in (AttentionCapture(transformer.config, 3, 4), AttentionCapture(transformer.config, 2, 0)):
        with pytest.raises(CpuBackendError, match="attention capture"):
            backend.step([0], [2], 1, [-1], capture)
    backend.free([0])
    assert backend.pages_used == 0
