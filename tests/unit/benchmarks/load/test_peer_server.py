"""The peer server answers like LibreTranslate with the weights of the model folder."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

from benchmarks.common.model_loader import open_model
from benchmarks.load.peer_server import Peer, create_app, export
from model.model_folder import read_folder
from model.search.options import DecodingOptions
from model.training.loop.evaluate import translate_texts


def test_the_peer_translates_like_this_engine(weights: Path, tmp_path: Path) -> None:
    folder = read_folder(weights)
    export(folder, tmp_path / "exported", "float32")
    peer = Peer(folder, tmp_path / "exported", precision="float32", threads=1)
    opened = open_model(weights, slots=2, threads=1)
    texts = ["the small house is green.", "das Haus ist rot."]
    options = DecodingOptions(max_length=64)
    ours = translate_texts(opened.backend, opened.tokenizer, opened.config, texts, "de", options).texts
    with TestClient(create_app(peer, workers=2)) as client:
        body = {"q": texts, "source": "en", "target": "de"}
        answer = client.post("/translate", json=body).json()["translatedText"]
        whole = client.post("/translate", json={**body, "q": f"  {texts[0]}\n\n"}).json()["translatedText"]
    assert whole == f"  {answer[0]}\n\n"
    assert answer == list(ours)
