"""The benchmark of attention requests measures every kind of request and compares it with the translation."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from benchmarks.load.inspection import main, measure
from tests.support.live import live_server


def test_every_kind_of_request_is_measured(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live_server(weights.parent, tmp_path / "log") as server:
        url = server.url
        rows, shape = asyncio.run(measure(url, "en-de", "small house", 2))
        assert main([url, "--text", "green garden", "--rounds", "1", "--json", str(tmp_path / "inspection.json")]) == 0
        assert main([url, "--direction", "en-xx", "--rounds", "1"]) == 2
    assert "tokens, maps {'cross': [1, 2," in shape
    assert [row["request"].split(",")[0] for row in rows] == ["translation"] + ["attention"] * 2 + ["picture"] * 18
    assert all(row["ms"] > 0 and row["kB"] > 0 for row in rows) and rows[0]["translations"] == 1.0
    assert json.loads((tmp_path / "inspection.json").read_text())["benchmark"] == "inspection"
    assert "returned status 400" in capsys.readouterr().err
