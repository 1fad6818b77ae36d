"""`attentive keys create` warns while callers without a key are accepted."""

from __future__ import annotations

import pytest

from server.__main__ import main


@pytest.mark.parametrize(("required", "warned"), [("", True), ("false", True), ("true", False)])
def test_callers_without_a_key_are_a_warning(monkeypatch, tmp_path, capsys, required, warned):
    monkeypatch.setenv("ATTENTIVE_KEY_REQUIRED", required)
    assert main(["keys", "create", "Ann", "--data", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 1
    assert ("ATTENTIVE_KEY_REQUIRED=true" in output.err) == warned
