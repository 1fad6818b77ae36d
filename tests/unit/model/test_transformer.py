"""Tests of the Transformer: cached decoding equals the teacher-forced pass in every configuration.

PyTorch promises equal tokens of a batch and alone up to ties, and logits within TOLERANCE: the order of its float32 sums
depends on the processor, the shape and the number of threads.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from model.backends.torch.backend import TorchBackend
from model.backends.torch.inputs import head_gates, pad_ids
from model.kv_cache import KVCache
from model.transformer import Transformer
from tests.support.models.hypotheses import assert_same_up_to_ties
from tests.support.models.random_models import VARIANTS, best, decode, random_ids, random_model

pytestmark = pytest.mark.numeric

T = 9
TOLERANCE = 1e-3
"""Tolerance of a logit. The random weights are large and amplify rounding errors: without vector instructions the logits
of the deep encoder differ by 1.2e-4. A fault changes them by more than 0.01."""


def batch(transformer: Transformer, count: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Returns padded sources (B, S), the mask (B, S) and decoder inputs (B, T)."""
    config = transformer.config
    source, mask = pad_ids(random_ids(config, count), config.pad_id, torch.device("cpu"))
    target = torch.randint(0, config.vocab_size, (count, T), generator=torch.Generator().manual_seed(2))
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
            alone = transformer.encode(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))
            assert torch.allclose(together[row, : len(ids)], alone[0], atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("beam", [1, 4])
def test_batched_equals_alone(variant: str, beam: int) -> None:
    transformer = random_model(variant)
    sources = random_ids(transformer.config, 16)
    together = decode(transformer, sources, slots=24 * beam, beam_size=beam, max_length=16)
    crowded = decode(transformer, sources[::-1], slots=3 * beam, beam_size=beam, max_length=16)[::-1]
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
            output = backend.step([0, 1, 2, 3], target[:, t].tolist(), transformer.config.vocab_size, [-1] * 4)
            scores = torch.log_softmax(expected[:, t], -1).gather(1, torch.from_numpy(output.ids))
            assert torch.allclose(torch.from_numpy(output.scores), scores, atol=TOLERANCE)


@pytest.mark.parametrize("head", [("encoder", 2, 0), ("cross", 0, 4), ("sideways", 0, 0), ("decoder", -1, 0)])
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
    """LayerNorm(x + Sublayer(x)) in post-norm models, x + Sublayer(LayerNorm(x)) in pre-norm models."""
    model = random_model(variant)
    layer, attended = model.encoder[0], []
    layer.self_attention.output.register_forward_hook(lambda _module, _inputs, output: attended.append(output))
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
