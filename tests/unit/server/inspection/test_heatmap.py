"""Attention maps as pictures."""

from __future__ import annotations

import re

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


def test_a_grid_names_its_tokens_and_has_a_scale():
    weights = np.full((2, 3, 2, 2), 1 / 2, dtype=np.float32)
    grid = [MapView("cross", weights, (0, 1), (0, 1, 2), ("Katze", "schläft"), ("cat", "sleeps"))]
    svg = render_heatmap(grid, "svg", "title").decode()
    assert [svg.count(f">{label}<") for label in ("Katze", "schläft", "cat", "sleeps")] == [2, 2, 3, 3]
    assert {"0.00", "0.50", "1.00"} <= set(re.findall(r">([\d.]+)<", svg))  # numbers of the bar


def test_equal_weights_have_equal_colours_in_all_pictures():
    def colours(largest: float) -> list[str]:
        weights = np.array([[[[0.3, largest]]]], dtype=np.float32)
        svg = render_heatmap([MapView("cross", weights, (0,), (0,), ("a",), ("b", "c"))], "svg", "").decode()
        return re.findall(r"fill: (#[0-9a-f]{6})", svg.split("QuadMesh")[1].split("</g>")[0])

    assert colours(0.4)[0] == colours(0.9)[0] != colours(0.9)[1]
