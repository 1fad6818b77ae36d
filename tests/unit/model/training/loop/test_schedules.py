"""Learning-rate schedules."""

from __future__ import annotations

import numpy as np
import pytest

from model.training.loop.optimizers import noam, wsd


def test_schedules() -> None:
    rates = [noam(step, 512, 4000) for step in range(1, 8000)]
    assert int(np.argmax(rates)) + 1 == 4000
    assert wsd(1000, 0.5, 10, 0.2) == 1.0
    assert wsd(1000, 1.0, 10, 0.2) == pytest.approx(0.0)
    assert wsd(5, 0.0, 10, 0.2) == 0.5
