"""Every translation keeps the marked parts of its text, even if the model reverses whatever it
reads."""

from __future__ import annotations

from fastapi.testclient import TestClient

from tests.support.texts.kept_parts import TEXTS


def test_parts_are_kept(client: TestClient) -> None:
    texts = [kept for kept in TEXTS if kept.kind != "copied"]
    asked = {"q": [kept.text for kept in texts], "source": "en", "target": "de"}
    answers = client.post("/translate", json=asked).json()["translatedText"]
    assert [
        (kept.text, answer, broken)
        for kept, answer in zip(texts, answers, strict=True)
        if (broken := kept.broken_rules(answer))
    ] == []
