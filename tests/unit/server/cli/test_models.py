"""The command `attentive models`, and errors of the command line."""

from __future__ import annotations

import json
from pathlib import Path

from server.__main__ import main


def test_the_command_models_lists_models_and_errors(weights, capsys):
    assert main(["models", "--weights", str(weights)]) == 0
    assert "tiny" in capsys.readouterr().out
    (weights / "bad").mkdir()
    (weights / "bad" / "config.json").write_text("{")
    assert main(["models", "--weights", str(weights), "--json"]) == 1
    listed = json.loads(capsys.readouterr().out)
    assert listed["models"][0]["pairs"] == ["en-de", "en-fr"] and "bad" in listed["errors"]
    (weights / "empty").mkdir()
    for folder in (weights / "empty", Path("/nowhere")):
        assert main(["models", "--weights", str(folder)]) == 2
        error = capsys.readouterr().err
        assert "ATTENTIVE_WEIGHTS" in error and str(folder) in error
