"""Head health of a model folder: every head and the gain of every layer is printed and written, and a missing set is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quality import heads


def test_every_head_is_measured(
    weights: Path, development: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "heads.json"
    arguments = [str(weights), "--data", str(development), "--set", "small", "--limit", "6", "--json", str(written)]
    assert heads.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "of the heads read" in printed
    assert printed.count("head 1") == 3  # encoder, decoder and cross-attention
    assert printed.count("| gain") == 3
    figures = json.loads(written.read_text(encoding="utf-8"))
    assert {kind: len(layers) for kind, layers in figures["gain"].items()} == {"encoder": 1, "decoder": 1, "cross": 1}
    found = figures["heads"]
    for kind in ("encoder", "decoder", "cross"):
        assert [len(layer) for layer in found[kind]["entropy"]] == [2]
        assert 0.0 <= found[kind]["reading"] <= 1.0


def test_a_missing_set_is_named(weights: Path, development: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert heads.main([str(weights), "--data", str(development), "--set", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
