"""README's commands that replace the shipped model: two models of Firefox are pulled from a fake of Mozilla's list, and a server
translates with both."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.fake_firefox_list import PublishedModels
from tests.support.servers.live import ROOT, live_server

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_two_pulled_models_replace_the_shipped_one(tmp_path: Path) -> None:
    pulls = re.findall(r"^\.venv/bin/attentive (pull firefox/.* --weights strong)$", README, re.MULTILINE)
    assert len(pulls) == 2 and "\nATTENTIVE_WEIGHTS=strong make serve\n" in README
    (tmp_path / "served").mkdir()
    published = PublishedModels(tmp_path / "served")
    published.models["de-en"] = [published.entry | {"sourceLanguage": "de", "targetLanguage": "en"}]
    environment = {**os.environ, "ATTENTIVE_FIREFOX_MODELS": published.address}
    try:
        for command in pulls:
            done = subprocess.run(
                [sys.executable, "-m", "server", *shlex.split(command)], cwd=tmp_path,
                env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "licence: MPL-2.0; BLEU 40.0, COMET 0.8651 on FLORES-200" in done.stdout
    finally:
        published.close()
    assert sorted(path.name for path in (tmp_path / "strong").iterdir()) == ["firefox-de-en", "firefox-en-de"]
    with live_server(tmp_path / "strong", tmp_path / "log") as server:
        for source, target in (("en", "de"), ("de", "en")):
            answer = server.post("/translate", {"q": "abc", "source": source, "target": target})
            assert answer.status == 200 and isinstance(answer.json()["translatedText"], str)
        assert server.post("/translate", {"q": "abc", "source": "en", "target": "fr"}).status == 400
