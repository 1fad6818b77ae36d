"""The script for the first minutes on a GPU, rehearsed on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.servers.live import ROOT


@pytest.mark.slow
@pytest.mark.skipif(
    torch.cuda.is_available(), reason="There is a GPU, on which the script itself runs."
)
def test_every_part_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHON": sys.executable, "SCALE": "8", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [ROOT / "tests/gpu/first_minutes.sh", tmp_path], env=environment, check=False
    )
    assert done.returncode == 0, {
        file.name: file.read_text()[-1000:] for file in tmp_path.glob("*.txt")
    }
    parts = (tmp_path / "summary.txt").read_text().splitlines()
    assert len(parts) == 9 and all("status 0" in part for part in parts)
