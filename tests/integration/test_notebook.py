"""docs/notebook.ipynb draws the figures of the paper for an own model, one of Firefox's shape, and
a Marian model of Hugging Face that it converts and serves itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.convert.importer import ImportOptions, import_model
from tests.support.models.firefox_models import random_firefox
from tests.support.models.marian_models import random_huggingface
from tests.support.notebook import run_cells
from tests.support.servers.live import live_server, tiny_model

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


@pytest.mark.slow
def test_every_family_draws_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "weights"
    tiny_model(weights / "own")
    random_huggingface(tmp_path / "opus", encoder_attention_heads=2, decoder_attention_heads=2)
    random_firefox(tmp_path / "firefox", heads=2)
    import_model(
        tmp_path / "firefox", weights, ImportOptions(name="firefox", sources=["en"], targets=["es"])
    )
    monkeypatch.chdir(tmp_path)
    with live_server(weights, tmp_path / "log") as server:
        names = run_cells(NOTEBOOK, server.url, monkeypatch, "opus")
    drawn = names["drawn"]
    assert {model for model, _ in drawn} == {"own", "firefox"} and len(drawn) == 6
    figures = [*drawn.values(), *names["by_name"].values()]
    assert all(figure.svg.startswith("<svg") and figure["encoder"].ndim == 4 for figure in figures)
    assert names["process"].wait() is not None
