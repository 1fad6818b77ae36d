"""POST /score, POST /trace and GET /model, and masked heads."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from model.analysis.head_roles import HeadRole, HeadRoles, weights_hash
from model.config import small
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import fake_model
from tests.support.models.folders import new_folder

ASK = {"q": "Hello", "source": "en", "target": "de"}


def test_masked_heads_reach_the_worker(client, engine):
    mask = "cross.0.1,encoder.1.0"
    client.get("/attention", params=ASK | {"masked_heads": mask})
    client.post("/translate", json=ASK | {"q": "Again", "masked_heads": mask})
    heads = (("cross", 0, 1), ("encoder", 1, 0))
    assert engine.attended[-1][2] == heads
    assert [options.masked_heads for *_, options, _, _ in engine.submitted] == [heads, heads]
    for wrong in ("cross", "cross.1", "nowhere.0.0", "cross.-1.0", "cross.0.x", "cross.²..0"):
        assert client.get("/attention", params=ASK | {"masked_heads": wrong}).status_code == 400
        assert client.post("/translate", json=ASK | {"masked_heads": wrong}).status_code == 400


def test_scores_of_given_translations(client):
    asked = ASK | {"translation": ["Hallo", "Tag"]}
    found = client.post("/score", json=asked).json()["scores"]
    assert [score["text"] for score in found] == ["Hallo", "Tag"]
    assert found[0]["score"] == pytest.approx(sum(found[0]["scores"]))
    assert len(found[0]["scores"]) == len("Hallo") + 1
    one = client.post("/score", json=asked | {"translation": "Hallo"}).json()["scores"]
    assert one["score"] == found[0]["score"]
    assert client.post("/score", json=asked | {"translation": ["x"] * 17}).status_code == 400
    assert client.post("/score", json=ASK).json() == {"error": "Invalid request: missing translation parameter."}


def test_a_trace_has_every_step(client, engine):
    found = client.post("/trace", json={"q": "Hi. Ho.", "source": "en", "target": "de", "sentence": 1, "beam_size": 3})
    body = found.json()
    assert (body["sentence"], body["sentences"], body["source"]["text"]) == (1, 2, "Ho.")
    assert len(body["hypotheses"]) == 3
    [(_, _, options, _, _)] = engine.submitted
    assert options.trace and options.beam_size == 3
    assert client.post("/trace", json={"q": "Hi.", "source": "en", "target": "de", "sentence": 1}).status_code == 400
    assert client.post("/trace", json={"q": "42", "source": "en", "target": "de"}).status_code == 400
    assert client.post("/trace", json={"q": "Hi.", "source": "de", "target": "fr"}).status_code == 400


def test_the_shape_of_the_model(serve, tmp_path: Path):
    config = small(100)
    pairs = (("en", "de"), ("de", "en"))
    folder = new_folder(tmp_path, config, pairs=pairs)
    (tmp_path / "config.json").write_text(folder.to_json())
    client = serve(ModelCatalog([dataclasses.replace(fake_model(pairs=pairs), folder=tmp_path)]))
    [leg] = client.get("/model", params={"source": "en", "target": "de"}).json()["legs"]
    assert leg["config"] == dataclasses.asdict(config) | {"head_dim": config.head_dim}
    assert leg["roles"] is None
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    HeadRoles(weights_hash(tmp_path), 2, ("en-de",), {"cross": [[HeadRole("rare", 0.5)]]}).write(tmp_path)
    [leg] = client.get("/model", params={"source": "en", "target": "de"}).json()["legs"]
    assert (leg["roles"]["sentences"], leg["roles"]["directions"]) == (2, ["en-de"])
    assert leg["roles"]["heads"]["cross"] == [[{"role": "rare", "share": 0.5}]]
    assert client.get("/model", params={"source": "en", "target": "en"}).status_code == 404
