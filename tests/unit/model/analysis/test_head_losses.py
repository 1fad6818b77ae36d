"""What heads and layers are worth."""

from __future__ import annotations

from model.analysis.head_roles import HeadLosses, measure_losses
from model.analysis.types import HeadMask

WORTH = {
    ("encoder", 0): [0.0, 0.1],
    ("encoder", 1): [0.5, 0.25],
    ("encoder", 2): [-0.01, 0.0],
    ("cross", 0): [2.0, 1.0],
}
TOGETHER = 1.0
"""What a layer of the encoder is worth if both of its heads are off, beyond the sum: each can do the work of the other."""


def loss(off: HeadMask) -> float:
    """Returns the loss of a model with these heads."""
    pairs = {(kind, layer) for kind, layer, head in off if {(kind, layer, 0), (kind, layer, 1)} <= set(off)}
    twice = sum(TOGETHER for kind, _ in pairs if kind == "encoder")
    return 3.0 + sum(WORTH[kind, layer][head] for kind, layer, head in off) + twice


def test_losses_are_those_of_each_head_each_layer_and_all_layers_but_the_best() -> None:
    assert measure_losses(loss, {"encoder": (3, 2), "cross": (1, 2)}, 7) == HeadLosses(
        sentences=7,
        loss=3.0,
        heads={"encoder": [[0.0, 0.1], [0.5, 0.25], [-0.01, 0.0]], "cross": [[2.0, 1.0]]},
        layers={"encoder": [1.1, 1.75, 0.99], "cross": [3.0]},
        others={"encoder": 2.09, "cross": 0.0},
    )
