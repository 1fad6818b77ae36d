"""The tensors of a layer: each follows from those before it, in float32 as in PyTorch, in int8 by
the integers."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import pytest

from model.analysis.tensors import CAPTURED, TENSORS, Float32, layer_tensors, names, shape
from model.analysis.types import (
    EVERYTHING,
    KINDS,
    SCORES,
    AttentionMaps,
    Followed,
    Head,
    HeadMask,
    MapChoice,
)
from model.backends.cpu.attention_capture import AttentionCapture
from model.backends.cpu.backend import MOST_HELD, CpuBackend, Precision
from model.backends.cpu.bindings import CpuBackendError
from model.backends.cuda.graphs import GraphedBackend
from model.backends.interface import finished
from model.backends.torch.attention_maps import attention_maps
from model.config import ModelConfig
from model.int8_calibration import for_int8, row_ranges
from model.weight_files import position_table
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


def places(config: ModelConfig) -> Iterator[Followed]:
    """Yields every attention of a model, each with another head."""
    for layer in range(config.encoder_layers):
        yield Followed("encoder", layer, layer % config.heads)
    for layer in range(config.decoder_layers):
        yield Followed("cross", layer, (layer + 1) % config.heads)
        if config.recurrence == "none":
            yield Followed("decoder", layer, layer % config.heads)


def pair(config: ModelConfig) -> tuple[list[int], list[int]]:
    [source] = sentences(config, (19,))
    [target] = sentences(config.replace(source_vocab_size=None), (23,))
    return source, target


def follow(
    backend: CpuBackend, source: list[int], target: list[int], followed: Followed
) -> tuple[AttentionMaps, dict[str, Float32]]:
    maps = backend.attention_maps(source, target, (), followed.vectors_of, choice=followed.choice)
    return maps, layer_tensors(backend.config, followed, maps)


@pytest.mark.parametrize("variant", VARIANTS)
def test_tensors_are_those_of_pytorch(variant: str) -> None:
    transformer = tiny(**VARIANTS[variant])
    config = transformer.config
    backend = cpu_backend(transformer, "float32")
    source, target = pair(config)
    for followed in places(config):
        _, tensors = follow(backend, source, target, followed)
        maps = attention_maps(
            transformer, source, target, vectors_of=followed.vectors_of, followed=followed
        )
        expected = layer_tensors(config, followed, maps)
        assert list(tensors) == list(expected) == names(config, followed)
        for name, values in tensors.items():
            assert values.shape == shape(config, followed, name, len(source), len(target) + 1)
            np.testing.assert_allclose(values, expected[name], atol=2e-5, rtol=1e-4, err_msg=name)


def test_backends_of_a_gpu_have_the_same_names_within_a_bound() -> None:
    """They compute in bfloat16, whose numbers have 8 bits: 5% of the largest of a tensor after some
    layers."""
    transformer = tiny()
    config = transformer.config
    source, target = pair(config)
    for part in KINDS:
        followed = Followed(part, 1)
        head, choice = followed.vectors_of, followed.choice
        exact = layer_tensors(
            config, followed, attention_maps(transformer, source, target, (), head, followed)
        )
        backend = GraphedBackend(copy.deepcopy(transformer).bfloat16(), 2, capture=False)
        tensors = layer_tensors(
            config, followed, backend.attention_maps(source, target, (), head, choice=choice)
        )
        assert list(tensors) == list(exact)
        for name in set(exact) - {"feed_forward.share", "logits"}:
            assert (
                np.abs(tensors[name] - exact[name]).max() <= 0.05 * np.abs(exact[name]).max() + 0.01
            ), name


@pytest.mark.parametrize("precision", PRECISIONS)
def test_following_a_layer_changes_no_bit(precision: Precision) -> None:
    for variant in ("default", "deep recurrence with heads of 48"):
        transformer = tiny(**VARIANTS.get(variant, {}))
        backend = cpu_backend(transformer, precision, threads=2)
        source, target = pair(transformer.config)
        plain = backend.attention_maps(source, target)
        for followed in places(transformer.config):
            maps, tensors = follow(backend, source, target, followed)
            for name in ("token_scores", "candidate_ids", "candidate_scores", "normalizers"):
                assert np.array_equal(getattr(maps, name), getattr(plain, name))
            weights, expected = (
                getattr(each, followed.part)[followed.layer, followed.head]
                for each in (maps, plain)
            )
            assert np.array_equal(weights, expected) and np.array_equal(
                weights, tensors[f"{followed.attention}.weights"]
            )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_position_and_names_choose_of_the_same_numbers(norm: str) -> None:
    transformer = tiny(norm=norm)
    backend = cpu_backend(transformer, "int8")
    source, target = pair(transformer.config)
    for followed in places(transformer.config):
        _, whole = follow(backend, source, target, followed)
        for name, rows in whole.items():
            _, found = follow(backend, source, target, followed._replace(position=7, names=(name,)))
            assert list(found) == [name]
            assert np.array_equal(
                found[name], rows[7:8] if TENSORS[name].axes[0] == "r" else rows
            ), name


@pytest.mark.parametrize("backend", ["cpu", "torch"])
def test_a_hidden_first_token_is_no_row(backend: str) -> None:
    """Models of many languages write the language first; it is not shown."""
    transformer = tiny()
    engine, config = cpu_backend(transformer, "float32"), transformer.config
    source, target = pair(config)
    for part in KINDS:
        followed = Followed(part, 0)
        head, choice = followed.vectors_of, followed.choice
        if backend == "cpu":
            maps = engine.attention_maps(source, target, (), head, choice=choice)
        else:
            maps = attention_maps(transformer, source, target, (), head, followed)
        whole, shown = (
            layer_tensors(config, followed, each) for each in (maps, maps.without_first_token(head))
        )
        skipped = 0 if followed.part == "encoder" else 1
        for name in (
            "stream",
            f"{followed.attention}.query",
            f"{followed.attention}.head",
            "feed_forward.mean",
        ):
            assert np.array_equal(shown[name], whole[name][skipped:]), name
        assert np.array_equal(shown["feed_forward.gamma"], whole["feed_forward.gamma"])
        rows, keys = shown[f"{followed.attention}.weights"].shape
        assert (rows, keys) == (len(shown["stream"]), len(shown[f"{followed.attention}.key"]))


class Integers:
    """The linear layers of an int8 engine in NumPy: products of integers, each row of which has its
    own scale."""

    def __init__(self, parameters: dict[str, Float32]) -> None:
        self.parameters = parameters

    def sums(self, name: str, x: Float32, heads: slice) -> tuple[np.ndarray, Float32, Float32]:
        """Returns the sums of products (N, outputs), their scales and the bias of a layer that
        reads x (N, inputs)."""
        weight = self.parameters[f"{name}.weight"]
        tops = row_ranges(weight)
        weights = np.rint(weight * (np.float32(127) / tops)[:, None]).astype(np.int64)[heads]
        integers, steps = rounded(x)
        return (
            integers @ weights.T,
            steps * (tops / np.float32(127))[heads],
            self.parameters[f"{name}.bias"][heads],
        )

    def matches(self, name: str, x: Float32, y: Float32, heads: slice = slice(None)) -> bool:
        """Returns whether y (N, outputs) is what the layer returns: its integers are the same, its
        numbers to 1e-5."""
        sums, scale, bias = self.sums(name, x, heads)
        same = np.array_equal(np.rint((y.astype(np.float64) - bias) / scale), sums)
        return same and bool(np.allclose(y, sums * scale + bias, atol=1e-5, rtol=1e-5))

    def stored(self, name: str, x: Float32, heads: slice) -> Float32:
        """Returns the keys or values of a head as the pages have them: rounded again, each with its
        own scale."""
        sums, scale, bias = self.sums(name, x, heads)
        integers, steps = rounded((sums * scale + bias).astype(np.float32))
        return integers * steps


def rounded(x: Float32) -> tuple[np.ndarray, Float32]:
    """Returns the integers of each row, of which the largest magnitude becomes 127, and the size of
    one."""
    top = np.abs(x).max(axis=-1, keepdims=True)
    return np.rint(x * (np.float32(127) / top)).astype(np.int64), top / np.float32(127)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_each_number_of_int8_follows_from_those_before_it(norm: str) -> None:
    transformer = tiny(norm=norm)
    config = transformer.config
    backend = cpu_backend(transformer, "int8")
    source, target = pair(config)
    weights = {name: tensor.numpy() for name, tensor in transformer.state_dict().items()}
    table = position_table(config, weights)
    corrected, shifts = for_int8(config, weights, table)
    engine = Integers({name: corrected[name] for name in weights})
    embeddings = row_ranges(weights["embedding.weight"])[:, None] / np.float32(127)
    embeddings = (
        np.rint(weights["embedding.weight"] / embeddings)
        * embeddings
        * np.float32(math.sqrt(config.d_model))
    )
    _, last = follow(backend, source, target, Followed("encoder", config.encoder_layers - 1))
    for followed in places(config):
        maps, t = follow(backend, source, target, followed)
        side, own = followed.side, followed.attention
        module = f"{side}.{followed.layer}.{own}_attention"
        head = slice(followed.head * config.head_dim, (followed.head + 1) * config.head_dim)
        if "embedding" in t:
            tokens = source if side == "encoder" else [config.decoder_start_id, *target]
            close(t["embedding"], embeddings[tokens])
            close(t["stream"], t["embedding"] + table[: len(tokens)])
        read = t["input"] if own == "self" else t["self.norm"]
        assert engine.matches(f"{module}.query", read, t[f"{own}.query"], head)
        if side == "encoder":
            assert engine.matches(f"{module}.key", read, t["self.key"], head)
            assert engine.matches(f"{module}.value", read, t["self.value"], head)
        else:
            memory = read if own == "self" else last["feed_forward.norm"]
            left_out = shifts[followed.layer][head] if own == "cross" else 0
            close(t[f"{own}.key"], engine.stored(f"{module}.key", memory, head) + left_out)
            close(t[f"{own}.value"], engine.stored(f"{module}.value", memory, head))
        scores = t[f"{own}.query"] @ t[f"{own}.key"].T / math.sqrt(config.head_dim)
        close(t[f"{own}.scores"], scores)
        if followed.part == "decoder":
            scores = np.where(np.tri(len(scores), dtype=bool), scores, -np.inf)
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
        close(t[f"{own}.weights"], exponentials / exponentials.sum(axis=-1, keepdims=True))
        close(t[f"{own}.head"], t[f"{own}.weights"] @ t[f"{own}.value"])
        assert np.array_equal(t[f"{own}.context"][:, head], t[f"{own}.head"])
        assert engine.matches(f"{module}.output", t[f"{own}.context"], t[f"{own}.output"])
        stream = t["stream"]
        for sublayer in (
            ("self", "cross", "feed_forward") if side == "decoder" else ("self", "feed_forward")
        ):
            residual = stream + t[f"{sublayer}.output"]
            assert np.array_equal(t[f"{sublayer}.residual"], residual)
            for name, vectors in (("carried", stream), ("added", t[f"{sublayer}.output"])):
                close(t[f"{sublayer}.{name}"], np.linalg.norm(vectors, axis=-1))
            mean, variance = t[f"{sublayer}.mean"], t[f"{sublayer}.variance"]
            close(mean, residual.mean(axis=-1))
            close(variance, residual.var(axis=-1))
            normed = (residual - mean[:, None]) / np.sqrt(variance + config.norm_epsilon)[:, None]
            close(t[f"{sublayer}.norm"], normed * t[f"{sublayer}.gamma"] + t[f"{sublayer}.beta"])
            stream = residual if norm == "pre" else t[f"{sublayer}.norm"]
        network, before = (
            f"{side}.{followed.layer}.feed_forward",
            "cross.norm" if side == "decoder" else "self.norm",
        )
        assert engine.matches(f"{network}.inner", t[before], t["feed_forward.inner"])
        assert np.array_equal(t["feed_forward.active"], np.maximum(t["feed_forward.inner"], 0))
        close(
            t["feed_forward.share"],
            np.count_nonzero(t["feed_forward.active"] > 0, axis=-1) / config.d_ff,
        )
        assert engine.matches(
            f"{network}.outer", t["feed_forward.active"], t["feed_forward.output"]
        )
        if side == "decoder":
            close(t["logits"] - t["normalizer"][:, None], maps.candidate_scores)
        if side == "decoder" and followed.layer == config.decoder_layers - 1:
            best = maps.candidate_ids[11]
            engine.parameters["projection.bias"] = np.zeros(config.vocab_size, np.float32)
            engine.parameters["projection.weight"] = weights["embedding.weight"]
            assert engine.matches(
                "projection", t["feed_forward.norm"][11:12], t["logits"][11:12], best
            )


def close(found: Float32, expected: Float32) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


def test_what_does_not_exist_and_what_is_too_much_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = cpu_backend(tiny(), "float32")
    choice = dataclasses.replace(SCORES, followed=Followed("decoder", 1, 0, 2))
    assert backend.attention_maps([5, 6], [7, 8], choice=choice).tensors
    for wrong in (("encoder", 0, 0, 2), ("encoder", 2), ("decoder", 0, 0, 3), ("cross", -1)):
        with pytest.raises(ValueError, match="no position"):
            backend.attention_maps(
                [5, 6], [7, 8], choice=dataclasses.replace(SCORES, followed=Followed(*wrong))
            )
    for part, layer, name in (
        ("encoder", 1, "embedding"),
        ("encoder", 0, "logits"),
        ("cross", 0, "self.scores"),
    ):
        with pytest.raises(ValueError, match=f"no tensor {name}"):
            backend.attention_maps([5], [7], choice=Followed(part, layer, names=(name,)).choice)
    with pytest.raises(ValueError, match="with scores"):
        backend.attention_maps(
            [5], [7], choice=MapChoice(scores=False, followed=Followed("encoder", 0))
        )
    monkeypatch.setattr("model.analysis.tensors.NUMBERS_LIMIT", 4000)
    with pytest.raises(ValueError, match="choose a position"):
        backend.attention_maps([5] * 9, [7], choice=Followed("encoder", 0).choice)
    assert len(CAPTURED) == 12 and set(CAPTURED) < set(TENSORS)


def decoded(
    backend: CpuBackend, source: list[int], target: list[int], slot: int, masked: HeadMask = ()
) -> tuple[AttentionCapture, list[float]]:
    """Returns attention weights and scores of the target, captured from an incremental decode."""
    config = backend.config
    capture = AttentionCapture(config, len(source), len(target) + 1)
    backend.prefill([source], [slot], [masked])
    scores = []
    for read, written in zip(
        [config.decoder_start_id, *target], [*target, config.eos_id], strict=True
    ):
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
    """The int8 tolerance is larger because torch stores keys and values in float32 and the CPU
    backend in int8."""
    transformer = tiny(**VARIANTS[variant])
    backend = cpu_backend(transformer, precision)
    config = transformer.config
    [source], [target] = (
        sentences(config, (21,)),
        sentences(config.replace(source_vocab_size=None), (30,)),
    )
    heads: list[Head | None] = [None, ("cross", 0, 0), ("encoder", 0, config.heads - 1)]
    if config.decoder_heads:
        heads.append(("decoder", config.decoder_layers - 1, 0))
    for head in heads:
        ours = backend.attention_maps(source, target, (), head)
        theirs = attention_maps(
            torch_backend(transformer, precision).transformer, source, target, (), head
        )
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
                our, their = (
                    getattr(ours.vectors, part),
                    getattr(exact if keys else theirs.vectors, part),
                )
                np.testing.assert_allclose(our, their, atol=1e-4 if precision == "float32" else 0.1)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("int8", 0.02)])
def test_maps_with_masked_heads_equal_decoding_with_masked_heads(
    precision: Precision, tolerance: float
) -> None:
    transformer = tiny(heads=4)
    backend, other = (
        cpu_backend(transformer, precision),
        torch_backend(transformer, precision).transformer,
    )
    [source], [target] = sentences(transformer.config, (23,)), sentences(transformer.config, (30,))
    plain = backend.attention_maps(source, target)
    for masked in (
        (("cross", 1, 2),),
        (("decoder", 0, 0), ("decoder", 1, 3)),
        (("encoder", 1, 1), ("cross", 0, 0)),
    ):
        maps = backend.attention_maps(source, target, masked)
        capture, scores = decoded(backend, source, target, 2, masked)
        assert np.array_equal(maps.cross, capture.cross) and np.array_equal(
            maps.decoder, capture.decoder
        )
        assert maps.token_scores.tolist() == scores
        theirs = attention_maps(other, source, target, masked)
        for kind in ("encoder", "decoder", "cross"):
            np.testing.assert_allclose(getattr(maps, kind), getattr(theirs, kind), atol=tolerance)
        assert not np.allclose(maps.token_scores, plain.token_scores)
    assert np.array_equal(backend.attention_maps(source, target).cross, plain.cross)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_attention_maps_do_not_depend_on_threads_or_change_other_slots(
    precision: Precision,
) -> None:
    transformer = tiny(vocab_size=333)
    [source], [target] = sentences(transformer.config, (33,)), sentences(transformer.config, (40,))
    alone = cpu_backend(transformer, precision)
    expected, rest = alone.attention_maps(source, target), decoded(alone, source, target, slot=0)[1]
    busy = cpu_backend(transformer, precision, threads=3)
    busy.prefill([source, target], [0, 15])
    for place, token in enumerate([2, *target]):
        found = busy.attention_maps(source, target)
        for part in (
            "encoder",
            "decoder",
            "cross",
            "token_scores",
            "candidate_ids",
            "candidate_scores",
        ):
            assert np.array_equal(getattr(found, part), getattr(expected, part))
        forced = [*target, transformer.config.eos_id][place]
        assert busy.step([15, 0], [5, token], 1, [-1, forced]).scores[1, 0] == np.float32(
            rest[place]
        )
    busy.free([0, 15])
    assert busy.pages_used == 0


PARTS = (
    "encoder",
    "decoder",
    "cross",
    "token_scores",
    "candidate_ids",
    "candidate_scores",
    "value_products",
)


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
    whole, alone = (
        backend.attention_maps(long, target, masked, choice=choice),
        backend.attention_maps(short, other),
    )
    expected = decoded(backend, short, other, slot=1)[1]
    for name, value in (("PART_TOKENS", 1), ("LEAST_ROWS", 7), ("PART_WORK", 1)):
        monkeypatch.setattr(f"model.backends.cpu.backend.{name}", value)
    backend.prefill([short], [1])
    passes, steps = backend.attention_passes(long, target, masked, choice=choice), 0
    found = None
    for read, wanted in zip(
        [config.decoder_start_id, *other], [*other, config.eos_id], strict=True
    ):
        scores = backend.step([1], [read], 1, [wanted]).scores[0, 0]
        assert scores == np.float32(expected[steps])
        steps += 1
        if steps % 5 == 0:
            between = backend.attention_maps(short, other)
            assert all(
                np.array_equal(getattr(between, part), getattr(alone, part)) for part in PARTS
            )
        try:
            next(passes)
        except StopIteration as end:
            found = end.value
            break
    found = finished(passes) if found is None else found
    assert steps >= config.encoder_layers
    assert found.tensors is not None and whole.tensors is not None
    assert all(
        np.array_equal(values, whole.tensors[name]) for name, values in found.tensors.items()
    )
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
    for source, target in (
        ([], [5]),
        ([200], [5]),
        ([-1], [5]),
        ([5], [200]),
        ([5], [5] * 64),
        ([5] * 65, [5]),
    ):
        with pytest.raises(ValueError, match=r"The (source|target)"):
            backend.attention_maps(source, target)
    with pytest.raises(ValueError, match="no nowhere head 0"):
        backend.attention_maps([5], [5], (("nowhere", 0, 0),))
    with pytest.raises(ValueError, match="no cross head 9"):
        backend.attention_maps([5], [5], (("cross", 0, 9),))
    with pytest.raises(ValueError, match="no cross head 9"):
        backend.attention_maps([5], [5], (), ("cross", 0, 9))
    backend.prefill([[5, 6]], [0])
    for capture in (
        AttentionCapture(transformer.config, 3, 4),
        AttentionCapture(transformer.config, 2, 0),
    ):
        with pytest.raises(CpuBackendError, match="attention capture"):
            backend.step([0], [2], 1, [-1], capture)
    backend.free([0])
    assert backend.pages_used == 0
