"""The tensors of a followed position: each follows from the one before it, in float32 as in PyTorch, in int8 by the integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from model.analysis.tensors import TENSORS, Followed, names, residuals
from model.analysis.types import EVERYTHING, SCORES, MapChoice
from model.backends.cpu.backend import CpuBackend, Precision
from model.backends.torch.attention_maps import attention_maps
from model.config import ModelConfig
from tests.support.models.cpu_models import (
    PRECISIONS,
    VARIANTS,
    cpu_backend,
    needs_cpu_backend,
    rounded,
    sentences,
    tiny,
)

pytestmark = [needs_cpu_backend, pytest.mark.numeric]


def places(config: ModelConfig, source: int, target: int) -> Iterator[Followed]:
    for layer in range(config.encoder_layers):
        yield Followed("encoder", layer, layer * (source - 1) // config.encoder_layers)
    for layer in range(config.decoder_layers):
        yield Followed("decoder", layer, target - layer * target // config.decoder_layers)


def pair(config: ModelConfig) -> tuple[list[int], list[int]]:
    [source] = sentences(config, (19,))
    [target] = sentences(config.replace(source_vocab_size=None), (23,))
    return source, target


def follow(backend: CpuBackend, source: list[int], target: list[int], followed: Followed):
    return backend.attention_maps(source, target, choice=dataclasses.replace(EVERYTHING, followed=followed))


@pytest.mark.parametrize("variant", VARIANTS)
def test_tensors_are_those_of_pytorch(variant: str) -> None:
    transformer = tiny(**VARIANTS[variant])
    backend = cpu_backend(transformer, "float32")
    source, target = pair(transformer.config)
    for followed in places(transformer.config, len(source), len(target)):
        maps = follow(backend, source, target, followed)
        expected = attention_maps(transformer, source, target, followed=followed)
        assert maps.tensors is not None and expected.tensors is not None
        assert list(maps.tensors) == list(expected.tensors) == names(transformer.config, followed)
        for name, values in maps.tensors.items():
            np.testing.assert_allclose(values, expected.tensors[name], atol=2e-5, rtol=1e-4, err_msg=name)
        np.testing.assert_allclose(maps.normalizers, expected.normalizers, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_following_a_position_changes_no_bit(precision: Precision) -> None:
    for variant in ("default", "deep recurrence with heads of 48"):
        transformer = tiny(**VARIANTS.get(variant, {}))
        backend = cpu_backend(transformer, precision, threads=2)
        source, target = pair(transformer.config)
        plain = backend.attention_maps(source, target)
        for followed in places(transformer.config, len(source), len(target)):
            maps = follow(backend, source, target, followed)
            for name in ("cross", "encoder", "decoder", "token_scores", "candidate_scores", "normalizers"):
                assert np.array_equal(getattr(maps, name), getattr(plain, name))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_each_number_follows_from_those_before_it(precision: Precision, norm: str) -> None:
    """The products have the exact sums of the engine's integers; sums of float32 differ by their order."""
    transformer = tiny(norm=norm)
    backend = cpu_backend(transformer, precision)
    reference = rounded(transformer) if precision == "int8" else transformer
    source, target = pair(transformer.config)
    for followed in places(transformer.config, len(source), len(target)):
        maps = follow(backend, source, target, followed)
        assert maps.tensors is not None
        tensors = {name: torch.from_numpy(values) for name, values in maps.tensors.items()}
        layer = getattr(reference, followed.side)[followed.layer]
        products = {"self": layer.self_attention.output, "feed_forward": layer.feed_forward.outer}
        read = {"self": tensors["self.context"], "feed_forward": torch.relu(tensors["feed_forward.inner"])}
        before = "self.norm"
        if followed.side == "decoder":
            products["cross"], before = layer.cross_attention.output, "cross.norm"
            read["cross"] = tensors["cross.context"]
        computed = {f"{name}.output": module(read[name]) for name, module in products.items()}
        computed["feed_forward.inner"] = layer.feed_forward.inner(tensors[before])
        residual = {name: torch.from_numpy(values) for name, values in residuals(maps.tensors).items()}
        for name in products if norm == "post" else ():
            first = "attention" if followed.side == "encoder" else name
            own = f"{first if name == 'self' else name}_residual"
            computed[f"{name}.norm"] = getattr(layer, own).norm(residual[f"{name}.residual"])
        for name, values in computed.items():
            np.testing.assert_allclose(tensors[name], values.detach().reshape(-1), atol=1e-5, rtol=1e-5, err_msg=name)


def test_logits_are_the_scores_and_their_normalizer() -> None:
    transformer = tiny()
    backend = cpu_backend(transformer, "float32")
    source, target = pair(transformer.config)
    last = Followed("decoder", transformer.config.decoder_layers - 1, 5)
    maps = follow(backend, source, target, last)
    assert maps.tensors is not None and maps.normalizers is not None
    logits = transformer.logits(torch.from_numpy(maps.tensors["feed_forward.norm"])).detach().numpy()
    shown = maps.candidate_scores[5] + maps.normalizers[5]
    np.testing.assert_allclose(shown, logits[maps.candidate_ids[5]], atol=1e-5)


def test_positions_that_do_not_exist_are_refused() -> None:
    backend = cpu_backend(tiny(), "float32")
    choice = dataclasses.replace(SCORES, followed=Followed("decoder", 1, 2))
    assert backend.attention_maps([5, 6], [7, 8], choice=choice).tensors
    for wrong in (("encoder", 0, 2), ("encoder", 2, 0), ("decoder", 0, 3), ("decoder", -1, 0), ("cross", 0, 0)):
        with pytest.raises(ValueError, match="no position"):
            backend.attention_maps([5, 6], [7, 8], choice=dataclasses.replace(SCORES, followed=Followed(*wrong)))
    with pytest.raises(ValueError, match="with scores"):
        backend.attention_maps([5], [7], choice=MapChoice(scores=False, followed=Followed("encoder", 0, 0)))
    assert len(TENSORS) == 12
