"""POST /suggest: off unless asked for, bounded, and honest about a full disk."""

from __future__ import annotations

import json

import pytest

from server.history import suggestions

BETTER = {"q": "Hello world!", "s": "Hallo Welt!", "source": "EN", "target": "de"}


def test_suggestions_are_kept_in_the_data_folder(serve, tmp_path):
    client = serve(data=tmp_path, suggestions=True)
    assert client.get("/frontend/settings").json()["suggestions"] is True
    for parts in ({"json": BETTER}, {"data": BETTER}):
        assert client.post("/suggest", **parts).json() == {"success": True}
    lines = (tmp_path / suggestions.FILE_NAME).read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert [(entry["q"], entry["s"], entry["source"], entry["target"]) for entry in entries] == [
        ("Hello world!", "Hallo Welt!", "en", "de")
    ] * 2


@pytest.mark.parametrize("fields", [{"s": None}, {"q": ""}, {"target": "xx"}, {"source": "auto"}, {"s": "x" * 100_001}])
def test_bad_suggestions(serve, tmp_path, fields):
    client = serve(data=tmp_path, suggestions=True)
    answer = client.post("/suggest", json=BETTER | fields)
    assert (answer.status_code, set(answer.json())) == (400, {"error"})


def test_a_full_file_and_a_full_disk(serve, tmp_path, monkeypatch):
    client = serve(data=tmp_path, suggestions=True)
    monkeypatch.setattr(suggestions, "BYTES_LIMIT", 10)
    assert client.post("/suggest", json=BETTER).status_code == 503
    (tmp_path / suggestions.FILE_NAME).unlink()
    (tmp_path / suggestions.FILE_NAME).mkdir()
    answer = client.post("/suggest", json=BETTER)
    assert answer.status_code == 503 and answer.headers["Retry-After"]
