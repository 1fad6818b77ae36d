"""Figures of the log: the loss of one rank, and the speed of all ranks."""

from __future__ import annotations

import pytest
import torch

from model.config import small
from model.training.data.batch import Batch
from model.training.loop import log_window
from model.training.loop.log_window import LogWindow


def _batch(tokens: int) -> Batch:
    empty = torch.zeros(0, dtype=torch.int64)
    return Batch(empty, empty, empty, empty, tokens, 2 * tokens)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_the_speed_is_that_of_all_ranks_and_the_share_of_peak_that_of_one(
    monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    clock = iter([10.0, 14.0])
    monkeypatch.setattr(log_window.time, "monotonic", lambda: next(clock))
    window = LogWindow()
    for loss, tokens in ((3.0, 300), (1.0, 100)):
        window.add(torch.tensor(loss), _batch(tokens))
    config = small(100)
    values = window.values(config, 1e12, ranks)
    assert values["loss"] == pytest.approx(2.5)
    assert values["tokens_per_second"] == 100 * ranks
    expected = log_window.training_flops(config, 800, 400) / 4.0 / 1e12
    assert values["share_of_peak"] == pytest.approx(expected, abs=1e-4)
