"""POST /translate against the fake worker: the LibreTranslate dialect."""

from __future__ import annotations


def test_one_text(client):
    answer = client.post("/translate", json={"q": "Hello world", "source": "en", "target": "de"})
    assert answer.status_code == 200
    assert answer.json()["translatedText"] == "dlrow olleH"
    assert set(answer.json()) == {"translatedText", "id"}
