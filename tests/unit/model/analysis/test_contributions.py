"""Contributions are the lengths of the vectors that cross-attention adds; invariants of rollout."""

from __future__ import annotations

import numpy as np
import pytest

from model.analysis.contributions import (
    head_contributions,
    layer_contributions,
    rollout,
    value_products,
)
from model.backends.torch.attention_maps import attention_maps, recorded
from tests.support.models.random_models import random_model


def test_contributions_are_lengths_of_the_vectors_and_of_their_sum_over_heads() -> None:
    rng = np.random.default_rng(1)
    values, outputs = (
        rng.normal(size=(2, 3, 5, 4)).astype(np.float32),
        rng.normal(size=(2, 3, 4, 12)),
    )
    cross = rng.dirichlet(np.ones(5), size=(2, 3, 7)).astype(np.float32)  # (L, H, T, S)
    values[1, 2] = 0  # as masked below
    vectors = np.einsum("lhts,lhsd,lhde->lhtse", cross, values, outputs)
    values[1, 2] = 1
    products = value_products(
        values, list(outputs.astype(np.float32)), [("cross", 1, 2), ("encoder", 0, 0)]
    )
    np.testing.assert_allclose(
        head_contributions(cross, products), np.linalg.norm(vectors, axis=-1), atol=1e-4
    )
    both = layer_contributions(cross, products)
    np.testing.assert_allclose(both, np.linalg.norm(vectors.sum(axis=1), axis=-1), atol=1e-4)


@pytest.mark.numeric
def test_a_source_of_one_token_contributes_the_whole_output_of_the_layer() -> None:
    model = random_model("the paper's", vocab_size=40, decoder_layers=3)
    attentions = [block.cross_attention for block in model.decoder]
    with recorded(attention.output for attention in attentions) as passed:
        maps = attention_maps(model, [11], [5, 9])
    found = layer_contributions(maps.cross, maps.value_products)
    for layer, attention in enumerate(attentions):
        added = passed[attention.output][1][0] - attention.output.bias  # (T, d_model)
        np.testing.assert_allclose(
            found[layer, :, 0], added.norm(dim=-1).detach().numpy(), rtol=1e-4
        )


def softmax(rng: np.random.Generator, *shape: int) -> np.ndarray:
    weights = np.exp(rng.normal(size=shape)).astype(np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.numeric
def test_rollout_sums_to_one_and_is_causal() -> None:
    rng = np.random.default_rng(3)
    decoder = np.tril(softmax(rng, 2, 4, 5, 5))
    decoder /= decoder.sum(axis=-1, keepdims=True)
    found = rollout(softmax(rng, 3, 4, 7, 7), decoder, softmax(rng, 2, 4, 5, 7))
    np.testing.assert_allclose(found.encoder.sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(
        found.decoder.sum(axis=-1) + found.cross.sum(axis=-1), 1.0, atol=1e-5
    )
    assert not np.triu(found.decoder, 1).any()
