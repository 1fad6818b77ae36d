"""The calibration of the shipped models."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.analysis.confidence import Confidence
from model.model_folder import find_folders, read_folder

FOLDERS = find_folders(Path(__file__).resolve().parents[4] / "weights")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_confidence_was_fitted_for_these_weights(folder):
    confidence = Confidence.load(folder)
    assert confidence is not None, "run the command in docs/models.md#calibration"
    assert set(confidence.directions) == {
        f"{source}-{target}" for source, target in read_folder(folder).pairs
    }
    qualities = [limits.quality for limits in confidence.directions.values()]
    assert all(quality.wrong > 0.7 and quality.calibration_error < 0.05 for quality in qualities)
    assert sum(quality.wrong for quality in qualities) / len(qualities) > 0.75
