"""Tests that attention maps of the teacher-forced pass equal the weights of incremental decoding.

PyTorch promises a tolerance: 1e-5 in maps and 1e-4 in scores for float32 (the order of sums), and
one rounding step for int8.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from model.attention import MultiHeadAttention, attention_weights
from model.backends.torch.attention_maps import attention_maps
from model.backends.torch.backend import TorchBackend
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis
from model.transformer import Transformer
from tests.support.models.random_models import random_model

pytestmark = pytest.mark.numeric

SOURCE = (11, 5, 29, 17, 8, 3)


def build(variant: str = "the paper's") -> Transformer:
    return random_model(variant, vocab_size=40, decoder_layers=3)


class RecordedWeights:
    """Records the weights of each call of fused attention, (H, 1, keys) per call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[np.ndarray] = []
        fused = MultiHeadAttention.attend

        def attend(module, query, key, value, bias, gate=None):  # type: ignore[no-untyped-def]
            self.calls.append(attention_weights(query, key, bias).float().numpy()[0])
            return fused(module, query, key, value, bias, gate)

        monkeypatch.setattr(MultiHeadAttention, "attend", attend)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedWeights]:
    with torch.inference_mode():
        yield RecordedWeights(monkeypatch)


def decode(transformer: Transformer, options: DecodingOptions) -> Hypothesis:
    config = transformer.config
    backend = TorchBackend(transformer, slots=options.beam_size)
    [hypotheses] = translate(backend, [SOURCE], options, config)
    return hypotheses[0]


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("masked", [(), (("cross", 1, 2), ("encoder", 0, 0), ("decoder", 2, 3))])
@pytest.mark.parametrize(
    "variant", ["the paper's", "pre-norm", "gelu, learned, unscaled", "two vocabularies"]
)
def test_maps_equal_the_incremental_decode(
    recorded: RecordedWeights,
    variant: str,
    masked: tuple[tuple[str, int, int], ...],
    beam_size: int,
) -> None:
    transformer = build(variant)
    found = decode(
        transformer, DecodingOptions(beam_size=beam_size, max_length=12, masked_heads=masked)
    )
    maps = attention_maps(transformer, SOURCE, found.tokens, masked)

    recorded.calls.clear()
    again = decode(transformer, DecodingOptions(prefix=found.tokens, masked_heads=masked))
    assert again.tokens[: len(found.tokens)] == found.tokens
    encoder, steps = (
        recorded.calls[: transformer.config.encoder_layers],
        recorded.calls[transformer.config.encoder_layers :],
    )
    np.testing.assert_allclose(maps.encoder, np.stack(encoder), atol=1e-5)
    layers = transformer.config.decoder_layers
    for place in range(len(found.tokens)):
        for layer in range(layers):
            own, cross = steps[2 * (place * layers + layer) : 2 * (place * layers + layer) + 2]
            np.testing.assert_allclose(
                maps.decoder[layer, :, place, : place + 1], own[:, 0, : place + 1], atol=1e-5
            )
            np.testing.assert_allclose(maps.cross[layer, :, place], cross[:, 0], atol=1e-5)
    np.testing.assert_allclose(
        maps.token_scores[: len(found.token_scores)], found.token_scores, atol=1e-4
    )


def test_candidates_are_sorted_and_hold_the_greedy_token() -> None:
    transformer = build()
    found = decode(transformer, DecodingOptions(max_length=8))
    maps = attention_maps(transformer, SOURCE, found.tokens)
    assert tuple(maps.candidate_ids[: len(found.tokens), 0]) == found.tokens
    assert (np.diff(maps.candidate_scores, axis=1) <= 0).all()


@pytest.mark.parametrize("head", [("cross", 2, 1), ("encoder", 1, 3), ("decoder", 0, 2)])
def test_head_vectors_reproduce_the_attention_weights(head: tuple[str, int, int]) -> None:
    kind, layer, number = head
    maps = attention_maps(build(), SOURCE, (5, 9, 30), vectors_of=head)
    assert maps.vectors is not None
    scores = maps.vectors.query @ maps.vectors.key.T / np.sqrt(maps.vectors.query.shape[-1])
    if kind == "decoder":
        scores = np.where(np.tri(len(scores), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights, getattr(maps, kind)[layer, number], atol=1e-5)


def test_maps_of_a_model_in_half_precision_are_float32() -> None:
    maps = attention_maps(build().bfloat16(), SOURCE, (12, 9, 31, 7))
    for weights in (maps.cross, maps.encoder, maps.decoder):
        assert weights.sum(-1) == pytest.approx(1.0, abs=1e-6)
