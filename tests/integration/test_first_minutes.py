"""The script for the first minutes on a GPU: its parts, rehearsed on the CPU in this process, and
what it does with their statuses."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from tests.gpu import first_minutes
from tests.support.servers.live import ROOT

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="There is a GPU, on which the script itself runs."
)
SCRIPT = ROOT / "tests/gpu/first_minutes.sh"
LISTED = re.findall(r"^for name in (.+); do part \$name", SCRIPT.read_text(), re.MULTILINE)
PARTS = " ".join(LISTED).split()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the script shows warnings of torch
@pytest.mark.parametrize("part", PARTS)
def test_every_part_runs(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    getattr(first_minutes, part)()


@pytest.mark.parametrize("status", [0, 3])
def test_the_script_fails_with_a_part(status: int, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(python)}
    done = subprocess.run(
        [SCRIPT, tmp_path], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert {line.split(":")[0] for line in lines} == {"environment", *PARTS}
    assert all(f"status {status}" in line for line in lines) and done.returncode == bool(status)
