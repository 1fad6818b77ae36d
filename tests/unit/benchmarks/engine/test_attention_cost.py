"""Attention in blocks equals attention with the window's mask, and the explorer shows the measured table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from benchmarks.engine.attention_cost import HEADER, blocks, full, main, window_mask
from model.attention import MultiHeadAttention

ROOT = Path(__file__).parents[4]


@pytest.mark.numeric
@pytest.mark.parametrize("length", [1, 5, 8, 23])
def test_blocks_equal_the_mask(length: int) -> None:
    torch.manual_seed(1)
    attention = MultiHeadAttention(16, 2).eval()
    x = torch.randn(1, length, 16)
    with torch.no_grad():
        torch.testing.assert_close(
            blocks(attention, x, 4), full(attention, x, window_mask(length, 4)), rtol=1e-4, atol=1e-5
        )


def test_the_command_writes_every_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cost.json"
    assert main(["--lengths", "8", "16", "--window", "4", "--repeats", "1", "--json", str(file)]) == 0
    assert [row["n"] for row in json.loads(file.read_text())["rows"]] == [8, 16]
    assert HEADER[1] in capsys.readouterr().out


def test_the_explorer_shows_the_stored_result() -> None:
    stored = json.loads((ROOT / "benchmarks/results/attention-cost.json").read_text())
    script = (ROOT / "server/web/static/explorer/cost.js").read_text()
    shown = [json.loads(row) for row in re.findall(r"^  (\[\d.*\]),$", script, re.MULTILINE)]
    assert shown == [list(row.values()) for row in stored["rows"]]
    assert stored["environment"]["date"][:10] in script and stored["environment"]["processor"] in script
    assert f"WINDOW = {stored['window']}" in script
