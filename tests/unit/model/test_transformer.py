"""The Transformer, its attention and its positions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from model.attention import MultiHeadAttention, attention_weights
from model.backends.torch.backend import TorchBackend
from model.backends.torch.inputs import head_gates, pad_ids
from model.kv_cache import KVCache
from model.positions import sinusoidal_table
from model.transformer import Transformer
from tests.support.models.folders import assert_same_up_to_ties
from tests.support.models.random_models import VARIANTS, best, decode, random_ids, random_model

pytestmark = pytest.mark.numeric

T = 9
TOLERANCE = 1e-3
"""Tolerance of a logit. The random weights are large and amplify rounding errors: without vector
instructions the logits of the deep encoder differ by 1.2e-4. A fault changes them by more than
0.01."""


def batch(transformer: Transformer, count: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Returns padded sources (B, S), the mask (B, S) and decoder inputs (B, T)."""
    config = transformer.config
    source, mask = pad_ids(random_ids(config, count), config.pad_id, torch.device("cpu"))
    target = torch.randint(
        0, config.vocab_size, (count, T), generator=torch.Generator().manual_seed(2)
    )
    target[:, 0] = config.decoder_start_id
    return source, mask, target


@pytest.mark.parametrize("variant", VARIANTS)
def test_cached_equals_uncached(variant: str) -> None:
    transformer = random_model(variant)
    source, mask, target = batch(transformer)
    with torch.inference_mode():
        expected = transformer(source, mask, target)  # (B, T, V)
        cache = KVCache(transformer.config, 4, torch.float32, torch.device("cpu"))
        rows = [2, 0, 3, 1]
        transformer.write_cross(transformer.encode(source, mask), mask.sum(1).tolist(), cache, rows)
        for t in range(T):
            logits = transformer.decode_step(target[:, t], cache, rows)
            assert torch.allclose(logits, expected[:, t], atol=TOLERANCE), t


@pytest.mark.parametrize("variant", VARIANTS)
def test_fused_attention_equals_that_of_training(variant: str) -> None:
    transformer = random_model(variant, dropout=0.0)
    source, mask, target = batch(transformer)
    with torch.inference_mode():
        fused = transformer.eval()(source, mask, target)
        assert torch.allclose(transformer.train()(source, mask, target), fused, atol=TOLERANCE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_padding_changes_nothing(variant: str) -> None:
    transformer = random_model(variant)
    config = transformer.config
    sources = random_ids(config, 6)
    source, mask = pad_ids(sources, config.pad_id, torch.device("cpu"))
    with torch.inference_mode():
        together = transformer.encode(source, mask)
        for row, ids in enumerate(sources):
            alone = transformer.encode(
                torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool)
            )
            assert torch.allclose(together[row, : len(ids)], alone[0], atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("beam", [1, 4])
def test_batched_equals_alone(variant: str, beam: int) -> None:
    transformer = random_model(variant)
    sources = random_ids(transformer.config, 16)
    together = decode(transformer, sources, slots=24 * beam, beam_size=beam, max_length=16)
    crowded = decode(transformer, sources[::-1], slots=3 * beam, beam_size=beam, max_length=16)[
        ::-1
    ]
    for row, source in enumerate(sources):
        [alone] = decode(transformer, [source], slots=beam, beam_size=beam, max_length=16)
        for found in (together, crowded):
            assert_same_up_to_ties(found[row], alone, TOLERANCE)
    assert len(set(best(together))) > 1


def test_gates_apply_to_cached_decoding() -> None:
    transformer = random_model()
    source, mask, target = batch(transformer)
    heads = (("encoder", 0, 1), ("decoder", 1, 2), ("cross", 0, 3))
    gates = head_gates(transformer, [heads] * source.shape[0])
    with torch.inference_mode():
        expected = transformer(source, mask, target, gates)
        assert not torch.allclose(expected, transformer(source, mask, target), atol=1e-3)
        backend = TorchBackend(transformer, 4)
        ids = [row[seen].tolist() for row, seen in zip(source, mask, strict=True)]
        backend.prefill(ids, [0, 1, 2, 3], [heads] * 4)
        for t in range(T):
            output = backend.step(
                [0, 1, 2, 3], target[:, t].tolist(), transformer.config.vocab_size, [-1] * 4
            )
            scores = torch.log_softmax(expected[:, t], -1).gather(1, torch.from_numpy(output.ids))
            assert torch.allclose(torch.from_numpy(output.scores), scores, atol=TOLERANCE)


@pytest.mark.parametrize(
    "head", [("encoder", 2, 0), ("cross", 0, 4), ("sideways", 0, 0), ("decoder", -1, 0)]
)
def test_unknown_heads_are_refused(head: tuple[str, int, int]) -> None:
    with pytest.raises(ValueError, match=rf"no {head[0]} head {head[2]} in layer {head[1]}"):
        head_gates(random_model(), [(head,)])


def test_tied_models_have_one_matrix_for_three_uses() -> None:
    tied, untied = random_model(), random_model("untied")
    matrix = tied.config.vocab_size * tied.config.d_model
    count = [sum(parameter.numel() for parameter in model.parameters()) for model in (tied, untied)]
    assert count[1] - count[0] == 2 * matrix
    features = torch.randn(3, tied.config.d_model)
    assert torch.allclose(tied.logits(features), features @ tied.embedding.weight.T)


@pytest.mark.parametrize("variant", ["the paper's", "pre-norm"])
@torch.inference_mode()
def test_every_sublayer_adds_to_what_the_residual_carries(variant: str) -> None:
    """LayerNorm(x + Sublayer(x)) in post-norm models, x + Sublayer(LayerNorm(x)) in pre-norm
    models."""
    model = random_model(variant)
    layer, attended = model.encoder[0], []
    layer.self_attention.output.register_forward_hook(
        lambda _module, _inputs, output: attended.append(output)
    )
    x = torch.randn(1, 6, model.config.d_model, generator=torch.Generator().manual_seed(0))
    output = layer(x, None)
    between, (inner, outer) = x + attended[0], (layer.feed_forward.inner, layer.feed_forward.outer)

    def feed_forward(x: Tensor) -> Tensor:
        return torch.relu(x @ inner.weight.T + inner.bias) @ outer.weight.T + outer.bias

    if variant == "pre-norm":
        expected = between + feed_forward(layer.feed_forward_residual.norm(between))
    else:
        between = layer.attention_residual.norm(between)
        expected = layer.feed_forward_residual.norm(between + feed_forward(between))
    torch.testing.assert_close(output, expected)


def test_weights_equal_the_equation_of_the_paper() -> None:
    torch.manual_seed(1)
    query, key = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
    weights = attention_weights(query, key, None)
    expected = torch.softmax((query @ key.transpose(-2, -1)) / math.sqrt(8), dim=-1)
    assert torch.allclose(weights, expected)


def test_a_gate_of_zero_switches_a_head_off() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(32, 4).eval()
    query, key, value = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
    gate = torch.ones(2, 4)
    gate[:, 2] = 0
    with torch.inference_mode():
        off = attention.attend(query, key, value, None, gate)
        value[:, 2] = 0
        assert torch.allclose(off, attention.attend(query, key, value, None), atol=1e-6)


def test_the_variance_of_products_grows_with_the_width_unless_they_are_divided() -> None:
    """The paper, footnote 4: products of vectors of variance 1 have variance D, and the softmax
    becomes sharp."""
    torch.manual_seed(4)

    def entropy(weights: torch.Tensor) -> float:
        return float(-(weights * weights.clamp_min(1e-30).log2()).sum(-1).mean())

    sharpness = []
    for width in (16, 64, 256):
        query, key = torch.randn(1, 1, 200, width), torch.randn(1, 1, 200, width)
        products = query @ key.transpose(-2, -1)
        assert float(products.var()) == pytest.approx(width, rel=0.15)
        assert float((products / math.sqrt(width)).var()) == pytest.approx(1, rel=0.15)
        divided = entropy(attention_weights(query, key, None))
        sharpness.append(entropy(products.softmax(-1)))
        assert divided > 6.5 > 2 * sharpness[-1]  # of at most log2(200) = 7.6 bits
    assert sharpness == sorted(sharpness, reverse=True)


@pytest.mark.parametrize("width", [2, 8, 512])
def test_table_equals_the_formula_of_the_paper(width: int) -> None:
    table = torch.from_numpy(sinusoidal_table(300, width))
    angles = torch.arange(300.0, dtype=torch.float64)[:, None] / 10000 ** (
        torch.arange(0, width, 2) / width
    )
    assert torch.allclose(table[:, 0::2], angles.sin().float(), atol=1e-4)
    assert torch.allclose(table[:, 1::2], angles.cos().float(), atol=1e-4)


def shift_matrix(offset: int, width: int) -> torch.Tensor:
    """Returns T_k with PE(pos + offset) = T_k @ PE(pos) for every pos, (width, width) in
    float64."""
    matrix = torch.zeros(width, width, dtype=torch.float64)
    for i in range(width // 2):
        angle = offset / 10000 ** (2 * i / width)
        pair = slice(2 * i, 2 * i + 2)
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[pair, pair] = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
    return matrix


@pytest.mark.parametrize("offset", [0, 1, 7, 100, -3])
@pytest.mark.parametrize("width", [2, 64, 512])
def test_shift_is_one_linear_map_for_all_positions(offset: int, width: int) -> None:
    table = torch.from_numpy(sinusoidal_table(300, width)).double()
    start = max(0, -offset)
    here = table[start : 300 - max(0, offset)]
    there = table[start + offset : start + offset + here.shape[0]]
    assert torch.allclose(here @ shift_matrix(offset, width).T, there, atol=1e-4)


def test_positions_are_unique_bounded_deterministic_and_independent_of_the_length() -> None:
    table = sinusoidal_table(2000, 64)
    assert np.abs(table).max() <= 1
    assert len({tuple(row) for row in table.tolist()}) == 2000
    assert np.array_equal(table, sinusoidal_table(2000, 64))
    assert np.array_equal(table[:50], sinusoidal_table(50, 64))


def test_products_of_positions_depend_on_the_distance_symmetrically_and_decay() -> None:
    table = torch.from_numpy(sinusoidal_table(400, 512)).double()
    products = table @ table.T
    by_distance = products[200, 200:].tolist()
    for position in (50, 200, 300):
        assert products[position, position:][:50].tolist() == pytest.approx(
            by_distance[:50], abs=1e-2
        )
        assert products[position, position - 49 : position + 1].flip(0).tolist() == pytest.approx(
            by_distance[:50], abs=1e-2
        )
    assert by_distance[0] == pytest.approx(256, abs=1e-3)
    assert all(near > far for near, far in itertools.pairwise(by_distance[:6]))
    means = [sum(by_distance[start : start + 40]) / 40 for start in range(0, 200, 40)]
    assert means == sorted(means, reverse=True)


def test_half_layout_is_a_permutation_of_the_interleaved_one() -> None:
    interleaved, half = (
        torch.from_numpy(sinusoidal_table(30, 16, half=half)) for half in (False, True)
    )
    assert torch.equal(half, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1))
