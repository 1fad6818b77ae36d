"""GET /encoder: the layers of an encoder for one sentence, and for its words in reverse order."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from server.inspection import encoder_study
from server.translation.catalog import ModelCatalog
from server.translation.model_discovery import read_model
from tests.support.servers.live import tiny_model

pytestmark = pytest.mark.slow
ASK = {"q": "the cat sleeps in a house", "source": "en", "target": "de"}


@pytest.fixture
def client(serve, tmp_path: Path) -> TestClient:
    return serve(ModelCatalog([read_model(tiny_model(tmp_path / "tiny"))]), attention_tokens=40)


def test_a_study_of_a_sentence(client):
    study = client.get("/encoder", params=ASK).json()
    source, order, fit = study["source"], study["order"], study["position_fit"]
    assert source["text"] == ASK["q"] and len(order["moved"]) == len(source["pieces"])
    text = "".join(source["pieces"][i] for i in order["pieces"][1:-1]).replace("\u2581", " ").strip()
    assert text == "house a in sleeps cat the"
    assert max(order["moved_without_positions"]) < 1e-5 < 1e-2 < max(order["moved"])
    names = {"carried_past_attention", "attention", "carried_past_feed_forward", "feed_forward", "active"}
    assert [layer.keys() for layer in study["layers"]] == [names] * 2 and max(study["layers"][0]["active"]) <= 1
    assert {len(numbers) for layer in study["layers"] for numbers in layer.values()} == {len(source["pieces"])}
    assert fit["sentences"] == 24 and len(fit["with_positions"]) == len(fit["without_positions"]) == 1 + 2
    assert fit["with_positions"][0] > 0.5 > fit["without_positions"][0]
    assert client.get("/encoder", params=ASK | {"q": " "}).status_code == 200


def test_what_is_not_studied_is_refused(client, monkeypatch):
    def refusal(**changes: str) -> tuple[int, str]:
        answer = client.get("/encoder", params=ASK | changes)
        return answer.status_code, answer.json()["error"]

    assert refusal(q="cat " * 60) == (400, "The encoder is studied with at most 40 tokens; this sentence has 182.")
    assert refusal(source="de", target="fr")[0] == 400
    monkeypatch.setattr(encoder_study, "PARAMETERS_LIMIT", 1000)
    assert refusal() == (400, "Only encoders of at most 0 million weights are studied; this one has 0 million.")
    monkeypatch.setattr(encoder_study, "find_spec", lambda name: None)
    assert refusal() == (503, "Studies of an encoder need PyTorch, which is not installed on this server.")
