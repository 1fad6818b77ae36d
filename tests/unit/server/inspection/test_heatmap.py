"""Attention maps as pictures."""

from __future__ import annotations

import numpy as np

from server.inspection.attention_view import MapView
from server.inspection.heatmap import render_heatmap

PNG = b"\x89PNG\r\n"


def test_pictures_of_any_script_and_size():
    labels = tuple("猫 שלום مرحبا $x^2$ \x00 {} <b> &amp;".split(" ")), ("long" * 60, "b", "c")
    weights = np.full((1, 1, len(labels[0]), 3), 1 / 3, dtype=np.float32)
    single = [MapView("cross", weights, (0,), (0,), *labels)]
    assert render_heatmap(single, "png", "$ title \n two").startswith(PNG)
    svg = render_heatmap(single, "svg", "title").decode()
    assert "猫" in svg and "שלום" in svg and "<b>" not in svg
    zeros = np.zeros((2, 3, 60, 60), dtype=np.float32)
    grid = [MapView("encoder", zeros, (0, 1), (0, 1, 2), ("x",) * 60, ("y",) * 60)]
    assert render_heatmap(grid, "png", "").startswith(PNG)
