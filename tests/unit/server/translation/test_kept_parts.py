"""Every translation keeps the marked parts of its text, even if the model reverses whatever it
reads."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from tests.support.texts.kept_parts import TEXTS, KeptParts


@pytest.mark.parametrize(
    "kept",
    [kept for kept in TEXTS if kept.kind != "copied"],
    ids=lambda kept: f"{kept.kind} {kept.text[:40]!r}",
)
def test_parts_are_kept(kept: KeptParts, client: TestClient) -> None:
    answer = client.post(
        "/translate", json={"q": kept.text, "source": "en", "target": "de"}
    ).json()["translatedText"]
    assert kept.broken_rules(answer) == [], answer
