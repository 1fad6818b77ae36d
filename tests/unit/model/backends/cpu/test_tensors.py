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
from model.analysis.types import KINDS, SCORES, AttentionMaps, Followed, MapChoice
from model.backends.cpu.backend import CpuBackend, Precision
from model.backends.cuda.graphs import GraphedBackend
from model.backends.torch.attention_maps import attention_maps
from model.config import ModelConfig
from model.int8_calibration import for_int8, row_ranges
from model.weight_arrays import position_table
from tests.support.models.cpu_models import (
    PRECISIONS,
    VARIANTS,
    cpu_backend,
    needs_cpu_backend,
    sentences,
    tiny,
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
        maps = attention_maps(transformer, source, target, vectors_of=followed.vectors_of, followed=followed)
        expected = layer_tensors(config, followed, maps)
        assert list(tensors) == list(expected) == names(config, followed)
        for name, values in tensors.items():
            assert values.shape == shape(config, followed, name, len(source), len(target) + 1)
            np.testing.assert_allclose(values, expected[name], atol=2e-5, rtol=1e-4, err_msg=name)


def test_backends_of_a_gpu_have_the_same_names_within_a_bound() -> None:
    """They compute in bfloat16, whose numbers have 8 bits: 5% of the largest of a tensor after some layers."""
    transformer = tiny()
    config = transformer.config
    source, target = pair(config)
    for part in KINDS:
        followed = Followed(part, 1)
        head, choice = followed.vectors_of, followed.choice
        exact = layer_tensors(config, followed, attention_maps(transformer, source, target, (), head, followed))
        backend = GraphedBackend(copy.deepcopy(transformer).bfloat16(), 2, capture=False)
        tensors = layer_tensors(config, followed, backend.attention_maps(source, target, (), head, choice=choice))
        assert list(tensors) == list(exact)
        for name in set(exact) - {"feed_forward.share", "logits"}:
            assert np.abs(tensors[name] - exact[name]).max() <= 0.05 * np.abs(exact[name]).max() + 0.01, name


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
            weights, expected = (getattr(each, followed.part)[followed.layer, followed.head] for each in (maps, plain))
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
            assert np.array_equal(found[name], rows[7:8] if TENSORS[name].axes[0] == "r" else rows), name


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
        whole, shown = (layer_tensors(config, followed, each) for each in (maps, maps.without_first_token(head)))
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
        """Returns the sums of products (N, outputs), their scales and the bias of a layer that reads x (N, inputs)."""
        weight = self.parameters[f"{name}.weight"]
        tops = row_ranges(weight)
        weights = np.rint(weight * (np.float32(127) / tops)[:, None]).astype(np.int64)[heads]
        integers, steps = rounded(x)
        return integers @ weights.T, steps * (tops / np.float32(127))[heads], self.parameters[f"{name}.bias"][heads]

    def matches(self, name: str, x: Float32, y: Float32, heads: slice = slice(None)) -> bool:
        """Returns whether y (N, outputs) is what the layer returns: its integers are the same, its numbers to 1e-5."""
        sums, scale, bias = self.sums(name, x, heads)
        same = np.array_equal(np.rint((y.astype(np.float64) - bias) / scale), sums)
        return same and bool(np.allclose(y, sums * scale + bias, atol=1e-5, rtol=1e-5))

    def stored(self, name: str, x: Float32, heads: slice) -> Float32:
        """Returns the keys or values of a head as the pages have them: rounded again, each with its own scale."""
        sums, scale, bias = self.sums(name, x, heads)
        integers, steps = rounded((sums * scale + bias).astype(np.float32))
        return integers * steps


def rounded(x: Float32) -> tuple[np.ndarray, Float32]:
    """Returns the integers of each row, of which the largest magnitude becomes 127, and the size of one."""
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
    embeddings = np.rint(weights["embedding.weight"] / embeddings) * embeddings * np.float32(math.sqrt(config.d_model))
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
        for sublayer in ("self", "cross", "feed_forward") if side == "decoder" else ("self", "feed_forward"):
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
        assert engine.matches(f"{network}.outer", t["feed_forward.active"], t["feed_forward.output"])
        if side == "decoder":
            close(t["logits"] - t["normalizer"][:, None], maps.candidate_scores)
        if side == "decoder" and followed.layer == config.decoder_layers - 1:
            best = maps.candidate_ids[11]
            engine.parameters["projection.bias"] = np.zeros(config.vocab_size, np.float32)
            engine.parameters["projection.weight"] = weights["embedding.weight"]
            assert engine.matches("projection", t["feed_forward.norm"][11:12], t["logits"][11:12], best)


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
            backend.attention_maps([5, 6], [7, 8], choice=dataclasses.replace(SCORES, followed=Followed(*wrong)))
    for part, layer, name in (
        ("encoder", 1, "embedding"),
        ("encoder", 0, "logits"),
        ("cross", 0, "self.scores"),
    ):
        with pytest.raises(ValueError, match=f"no tensor {name}"):
            backend.attention_maps([5], [7], choice=Followed(part, layer, names=(name,)).choice)
    with pytest.raises(ValueError, match="with scores"):
        backend.attention_maps([5], [7], choice=MapChoice(scores=False, followed=Followed("encoder", 0)))
    monkeypatch.setattr("model.analysis.tensors.NUMBERS_LIMIT", 4000)
    with pytest.raises(ValueError, match="choose a position"):
        backend.attention_maps([5] * 9, [7], choice=Followed("encoder", 0).choice)
    assert len(CAPTURED) == 12 and set(CAPTURED) < set(TENSORS)
