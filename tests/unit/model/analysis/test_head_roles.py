"""Figures of heads on maps with known results, their roles over a corpus, and what they are worth."""

from __future__ import annotations

import json

import numpy as np
import pytest

from model.analysis.head_roles import (
    FILE,
    HeadLosses,
    HeadRole,
    HeadRoles,
    RoleCounter,
    Tokens,
    diagonality,
    entropy,
    head_figures,
    measure_losses,
    weights_hash,
)
from model.analysis.types import HeadMask, Kind

SOURCE = Tokens(
    (">>de<<", "▁a", "▁rare", "▁b", ",", "</s>"), (7, 1, 9, 2, 0, 3), (True, *(False,) * 4, True)
)
TARGET = Tokens(("▁x", "▁y", ".", "</s>"), (1, 2, 3, 0), (False, False, False, True))
READ = Tokens(("<s>", "▁x", "▁y", "."), (0, 1, 2, 3), (True, False, False, False))


def looking(at: list[int], keys: int) -> np.ndarray:
    """Returns a map (1, 1, Q, K) whose queries look at these keys."""
    weights = np.full((len(at), keys), 0.01, dtype=np.float32)
    weights[np.arange(len(at)), at] = 0.9
    return weights[None, None]


@pytest.mark.parametrize(
    ("kind", "at", "role", "share"),
    [
        ("encoder", [0, 0, 1, 2, 3, 4], "previous", 1.0),
        ("encoder", [1, 2, 3, 4, 5, 5], "next", 1.0),
        ("encoder", [0, 1, 2, 3, 4, 5], "same", 1.0),
        ("encoder", [0, 0, 0, 0, 0, 0], "start", 1.0),
        ("encoder", [0, 4, 5, 4, 5, 0], "delimiter", 1.0),
        ("encoder", [0, 2, 2, 2, 1, 0], "rare", 0.75),
        ("encoder", [0, 5, 1, 4, 1, 0], "delimiter", 0.5),
        ("encoder", [0, 3, 4, 1, 2, 0], "mixed", 0.25),
        ("decoder", [0, 1, 2, 0], "previous", 1.0),
        ("decoder", [0, 0, 1, 2], "before_previous", 0.667),
        ("decoder", [3, 3, 3, 0], "delimiter", 1.0),
        ("cross", [0, 2, 3, 0], "diagonal", 1.0),
        ("cross", [2, 2, 2, 0], "rare", 1.0),
    ],
)
def test_a_role_is_where_most_queries_look(kind, at, role, share):
    counter = RoleCounter()
    keys = len((READ if kind == "decoder" else SOURCE).pieces)
    counter.add({kind: looking(at, keys)}, SOURCE, TARGET, READ)
    assert counter.roles() == {kind: [[HeadRole(role, share)]]}


def test_shares_are_those_of_all_sentences():
    counter = RoleCounter()
    for at in ([0, 1, 2, 3, 4, 5], [0, 1, 2, 4, 5, 5]):
        counter.add({"encoder": looking(at, 6)}, SOURCE, TARGET, READ)
    assert counter.sentences == 2 and counter.roles()["encoder"] == [[HeadRole("same", 0.75)]]


def test_kinds_without_maps_or_words_have_no_roles():
    counter = RoleCounter()
    nothing = Tokens(("</s>",), (0,), (True,))
    counter.add({"decoder": np.zeros((2, 0, 4, 4), dtype=np.float32)}, SOURCE, TARGET, READ)
    counter.add({"encoder": np.ones((1, 1, 1, 1), dtype=np.float32)}, nothing, nothing, nothing)
    assert counter.roles() == {}


def test_the_file_is_read_for_the_same_weights_only(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    heads = {"encoder": [[HeadRole("rare", 0.5)]], "decoder": [], "cross": []}
    losses = HeadLosses(3, 1.5, {"encoder": [[-0.01]]}, {"encoder": [-0.01]}, {"encoder": 0.0})
    for known in (None, losses):
        roles = HeadRoles(weights_hash(tmp_path), 3, ("en-de",), heads, known)
        roles.write(tmp_path)
        assert HeadRoles.read(tmp_path) == roles
    (tmp_path / "model.safetensors").write_bytes(b"others!")
    assert HeadRoles.read(tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [
        {"heads": 1},
        {"heads": {"encoder": [[{"role": "boss", "share": 1}]]}},
        {"heads": {"cross": [[{"role": "rare", "share": 2}]]}},
        {"sentences": None},
        {"losses": {"sentences": 3, "loss": "low"}},
        {"weights": "other"},
    ],
)
def test_a_file_that_is_not_valid_is_ignored(tmp_path, change):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    HeadRoles(
        weights_hash(tmp_path), 3, ("en-de",), {"encoder": [], "decoder": [], "cross": []}
    ).write(tmp_path)
    assert HeadRoles.read(tmp_path) is not None
    (tmp_path / FILE).write_text(json.dumps(json.loads((tmp_path / FILE).read_text()) | change))
    assert HeadRoles.read(tmp_path) is None
    (tmp_path / FILE).write_text("[]")
    assert HeadRoles.read(tmp_path) is None


WORTH = {
    ("encoder", 0): [0.0, 0.1],
    ("encoder", 1): [0.5, 0.25],
    ("encoder", 2): [-0.01, 0.0],
    ("cross", 0): [2.0, 1.0],
}
TOGETHER = 1.0
"""What a layer of the encoder is worth if both of its heads are off, beyond the sum: each can do
the work of the other."""


def loss(off: HeadMask) -> float:
    """Returns the loss of a model with these heads."""
    pairs = {
        (kind, layer)
        for kind, layer, head in off
        if {(kind, layer, 0), (kind, layer, 1)} <= set(off)
    }
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


@pytest.mark.numeric
def test_entropy_is_zero_for_one_key_and_log2_k_for_uniform_weights() -> None:
    maps = np.stack([np.eye(8, dtype=np.float32), np.full((8, 8), 1 / 8, dtype=np.float32)])
    np.testing.assert_allclose(entropy(maps), [[0.0] * 8, [3.0] * 8], atol=1e-5)


@pytest.mark.numeric
def test_diagonality_is_one_on_the_diagonal_and_zero_for_a_uniform_map() -> None:
    assert diagonality(np.eye(50, dtype=np.float32)) == pytest.approx(1.0)
    assert diagonality(np.full((400, 400), 1 / 400, dtype=np.float32)) == pytest.approx(
        0.0, abs=0.01
    )
    assert diagonality(np.eye(50, dtype=np.float32)[::-1]) < 0


@pytest.mark.parametrize(
    ("weights", "kind", "role"),
    [
        (np.eye(9), "encoder", "same"),
        (np.eye(9, k=-1), "encoder", "previous"),
        (np.eye(9, k=1), "encoder", "next"),
        (np.tile(np.eye(9)[8], (9, 1)), "encoder", "end"),
        (np.tile(np.eye(9)[0], (9, 1)), "cross", "start"),
        (np.full((9, 9), 1 / 9), "encoder", "broad"),
        (np.eye(9), "decoder", "previous"),
        (np.eye(9, k=-1), "decoder", "before_previous"),
    ],
)
def test_role_of_each_pattern(weights: np.ndarray, kind: Kind, role: str) -> None:
    assert head_figures(weights.astype(np.float32)[None, None], kind)[0][0].role == role
