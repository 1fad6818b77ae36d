"""The server, its worker and the commands without PyTorch, as in the container image for CPUs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from model.backends.cpu.build import build
from model.backends.cpu.isa import CpuBackendUnavailable
from tests.support.servers.live import ROOT, live_server

pytestmark = pytest.mark.slow


@pytest.fixture
def no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `import torch` fail in the processes that a test starts."""
    (tmp_path / "torch.py").write_text('raise ModuleNotFoundError("No module named \'torch\'", name="torch")\n')
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")


def test_translations_and_attention_need_no_torch(tiny_weights: Path, tmp_path: Path, no_torch: None) -> None:
    try:
        build()
    except CpuBackendUnavailable as reason:
        pytest.skip(f"needs a processor with the CPU backend: {reason}")
    with live_server(tiny_weights, tmp_path / "log") as server:
        assert server.get("/ready").json()["engine"] == "native"
        answer = server.post("/translate", {"q": "the house", "source": "en", "target": "de"})
        assert answer.status == 200
        assert server.get(f"/attention?id={answer.json()['id']}").status == 200


@pytest.mark.parametrize("arguments", [["import", "folder"], ["pull", "firefox/en-de"], ["pull", "a/b"]])
def test_a_command_that_needs_torch_says_so(arguments: list[str], tmp_path: Path, no_torch: None) -> None:
    (tmp_path / "folder").mkdir()
    command = [sys.executable, "-m", "server", *arguments]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.startswith(f"attentive: `{arguments[0]}` needs PyTorch")) == (1, True)
