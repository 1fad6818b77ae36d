"""GET /encoder: one sentence and its words in reverse order."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from server.inspection import encoder_study
from server.translation.catalog import ModelCatalog
from server.translation.served_models import read_model
from tests.support.servers.live import tiny_model

pytestmark = pytest.mark.slow
ASK = {"q": "the cat sleeps in a house", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def client(serve, folder: Path) -> TestClient:
    return serve(ModelCatalog([read_model(folder)]), attention_tokens=40)


def test_a_study_of_a_sentence(client):
    study = client.get("/encoder", params=ASK).json()
    source, order = study["source"], study["order"]
    assert source["text"] == ASK["q"] and len(order["moved"]) == len(source["pieces"])
    text = "".join(source["pieces"][i] for i in order["pieces"][1:-1]).replace("\u2581", " ").strip()
    assert text == "house a in sleeps cat the"
    assert max(order["moved_without_positions"]) < 1e-5 < 1e-2 < max(order["moved"])
    assert client.get("/encoder", params=ASK | {"q": " "}).status_code == 200


def test_what_is_not_studied_is_refused(client, monkeypatch):
    def refusal(**changes: str) -> tuple[int, str]:
        answer = client.get("/encoder", params=ASK | changes)
        return answer.status_code, answer.json()["error"]

    status, error = refusal(q="cat " * 60)
    assert status == 400 and "at most 40 tokens" in error
    assert refusal(source="de", target="fr")[0] == 400
    monkeypatch.setattr(encoder_study, "PARAMETERS_LIMIT", 1000)
    status, error = refusal()
    assert status == 400 and error.startswith("Only encoders of at most")


def test_a_server_without_pytorch_says_so(client, monkeypatch):
    monkeypatch.setattr(encoder_study, "find_spec", lambda name: None)
    answer = client.get("/encoder", params=ASK)
    assert answer.status_code == 503 and "need PyTorch" in answer.json()["error"]
