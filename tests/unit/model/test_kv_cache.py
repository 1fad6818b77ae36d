"""Tests of KVCache: slots are written, reordered and freed independently.

Copies promise equal bits; scores of PyTorch promise 1e-5, because the order of float32 sums depends on the shape.
"""

from __future__ import annotations

import pytest
import torch

from model.backends.torch.backend import TorchBackend
from model.config import ModelConfig
from model.kv_cache import KVCache
from tests.support.models.random_models import random_ids, random_model

pytestmark = pytest.mark.numeric

CONFIG = ModelConfig(vocab_size=10, d_model=8, heads=2, d_ff=8, encoder_layers=1, decoder_layers=2)
L, H, D = 2, 2, 4


def cache(slots: int = 4) -> KVCache:
    return KVCache(CONFIG, slots, torch.float32, torch.device("cpu"))


def write(store: KVCache, rows: list[int], value: float) -> None:
    """Runs one step in which each row appends its row number plus `value`."""
    store.open_step(rows)
    own = torch.tensor(rows, dtype=torch.float32).view(-1, 1, 1).expand(len(rows), H, D) + value
    for layer in range(L):
        store.write_self(layer, own, -own)
    store.close_step()


def begin(store: KVCache, slots: list[int], lengths: list[int]) -> None:
    keys = torch.tensor(slots, dtype=torch.float32).view(-1, 1, 1, 1).expand(len(slots), H, max(lengths), D)
    for layer in range(L):
        store.write_cross(layer, slots, keys, -keys)
    store.begin(slots, lengths)


def test_rows_of_different_length_share_a_step() -> None:
    store = cache()
    begin(store, [0, 2], [3, 5])
    write(store, [0], 0.1)
    write(store, [0, 2], 0.2)
    assert store.lengths == [2, 0, 1, 0]
    store.open_step([0, 2])
    assert store.step_positions().tolist() == [2, 1]
    own, cross = store.step_masks()
    assert own.tolist() == [[True, True, True], [True, True, False]]
    assert cross.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    keys, values = store.write_self(0, torch.full((2, H, D), 9.0), torch.full((2, H, D), -9.0))
    assert keys[:, 0, :, 0].tolist()[0] == pytest.approx([0.1, 0.2, 9.0])
    assert keys[1, 0, :2, 0].tolist() == pytest.approx([2.2, 9.0])
    assert torch.equal(keys[:, :, 0], -values[:, :, 0])
    keys, _ = store.read_cross(1)
    assert keys.shape == (2, H, 5, D)
    assert (keys[0, :, :3] == 0).all()
    assert (keys[1] == 2).all()


def test_growing_keeps_the_contents() -> None:
    store = cache()
    begin(store, [1], [2])
    for step in range(100):
        write(store, [1], step)
    assert store.lengths[1] == 100
    assert store.self_keys[0, 1, 0, :100, 0].tolist() == [step + 1.0 for step in range(100)]
    begin(store, [3], [90])
    assert (store.cross_keys[:, 1, :, :2] == 1).all()
    assert (store.cross_keys[:, 3, :, :90] == 3).all()


@pytest.mark.parametrize("origins", [[0, 0, 0, 0], [3, 2, 1, 0], [1, 0, 3, 3], [0, 1, 2, 3]])
def test_reorder_copies_rows_from_the_previous_contents(origins: list[int]) -> None:
    store = cache()
    begin(store, [0, 1, 2, 3], [4, 4, 4, 4])
    for row in range(4):
        for step in range(row + 1):
            write(store, [row], step / 10)
    before, cross = store.self_keys.clone(), store.cross_keys.clone()
    store.reorder([0, 1, 2, 3], origins)
    assert store.lengths == [origin + 1 for origin in origins]
    for row, origin in enumerate(origins):
        live = store.lengths[row]
        assert torch.equal(store.self_keys[:, row, :, :live], before[:, origin, :, :live])
        if row != origin and store.source_lengths[row] != store.source_lengths[origin]:
            assert torch.equal(store.cross_keys[:, row], cross[:, origin])


def test_a_reused_slot_gives_the_same_scores() -> None:
    transformer = random_model()
    backend = TorchBackend(transformer, 2)
    first, second = random_ids(transformer.config, 2, seed=3)

    def run() -> list[float]:
        backend.prefill([second], [0])
        tokens = [transformer.config.decoder_start_id, 5, 6, 7]
        return [float(backend.step([0], [token], 1, [-1]).scores[0, 0]) for token in tokens]

    fresh = run()
    backend.free([0])
    backend.prefill([first * 3, first], [0, 1])
    for token in range(20):
        backend.step([0, 1], [token, token], 1, [-1, -1])
    backend.free([0, 1])
    assert run() == pytest.approx(fresh, abs=1e-5)
