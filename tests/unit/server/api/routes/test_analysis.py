"""POST /score, POST /trace, GET /model and GET /encoder, and masked heads."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from model.analysis.head_roles import HeadLosses, HeadRole, HeadRoles, weights_hash
from model.config import small
from server.inspection import encoder_study
from server.models.discovery import read_model
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import fake_model
from tests.support.models.folders import new_folder
from tests.support.servers.in_process import running, wait_for

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
    assert client.post("/score", json=ASK).json() == {
        "error": "Invalid request: missing translation parameter"
    }


def test_a_trace_has_every_step(client, engine):
    found = client.post(
        "/trace",
        json={"q": "Hi. Ho.", "source": "en", "target": "de", "sentence": 1, "beam_size": 3},
    )
    body = found.json()
    assert (body["sentence"], body["sentences"], body["source"]["text"]) == (1, 2, "Ho.")
    assert len(body["hypotheses"]) == 3
    [(_, _, options, _, _)] = engine.submitted
    assert options.trace and options.beam_size == 3
    assert (
        client.post(
            "/trace", json={"q": "Hi.", "source": "en", "target": "de", "sentence": 1}
        ).status_code
        == 400
    )
    assert (
        client.post("/trace", json={"q": "42", "source": "en", "target": "de"}).status_code == 400
    )
    assert (
        client.post("/trace", json={"q": "Hi.", "source": "de", "target": "fr"}).status_code == 400
    )


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
    losses = HeadLosses(1, 2.5, {"cross": [[0.25]]}, {"cross": [0.25]}, {"cross": 0.0})
    HeadRoles(
        weights_hash(tmp_path), 2, ("en-de",), {"cross": [[HeadRole("rare", 0.5)]]}, losses
    ).write(tmp_path)
    [leg] = client.get("/model", params={"source": "en", "target": "de"}).json()["legs"]
    assert (leg["roles"]["sentences"], leg["roles"]["directions"]) == (2, ["en-de"])
    assert leg["roles"]["heads"]["cross"] == [[{"role": "rare", "share": 0.5}]]
    assert leg["roles"]["losses"] == dataclasses.asdict(losses)
    found = client.get("/positions", params={"source": "en", "target": "de", "n": 9, "r": 3}).json()
    assert (found["own"], len(found["schemes"])) == ("sinusoidal", 5)
    assert all(
        len(scheme["cells"]) == len(scheme["curves"][0]) == 9
        for scheme in found["schemes"].values()
    )
    for path in ("/model", "/positions"):
        assert client.get(path, params={"source": "en", "target": "en"}).status_code == 404


@pytest.mark.slow
def test_studies_of_an_encoder_that_are_refused(serve, tiny_weights: Path, monkeypatch):
    client = serve(ModelCatalog([read_model(tiny_weights / "tiny")]), attention_tokens=40)
    asked = {"q": "the cat sleeps in a house", "source": "en", "target": "de"}

    def refusal(**changes: str) -> tuple[int, str]:
        answer = client.get("/encoder", params=asked | changes)
        return answer.status_code, answer.json()["error"]

    assert refusal(q="cat " * 60) == (
        400,
        "The encoder is studied with at most 40 tokens; this sentence has 182.",
    )
    assert refusal(source="de", target="fr")[0] == 400
    monkeypatch.setattr(encoder_study, "BYTES_LIMIT", 1000)
    assert refusal() == (400, "Only encoders of models with at most 0 GB of weights are studied.")


@pytest.mark.parametrize(
    "fill",
    [
        ("POST", "/score", {"translation": "Hallo"}),
        ("POST", "/align", {"pairs": [["Hello", "Hallo"]]}),
        ("POST", "/trace", {}),
        ("GET", "/attention", {"translation": "Hallo"}),
    ],
)
def test_one_caller_leaves_room_for_the_attention_requests_of_others(engine, keys, fill):
    """Those of one caller wait in the engine, and each of the others gets in."""
    first, *others = [keys.create(name)[0] for name in ("first", "second", "third")]
    engine.gate = threading.Event()
    method, path, further = fill
    with (
        running(engine, data=keys.folder, history=False) as (url, server),
        httpx.Client(base_url=url, timeout=60) as client,
        ThreadPoolExecutor(30) as pool,
    ):
        admission = server._services.translator.admission
        admission._backlog._looks = 60
        admission._due = 0.0  # renews its lease
        looks = admission.queues["look"]

        def ask(key: str, method: str = "GET", path: str = "/attention", **further: object) -> int:
            fields = ASK | {"translation": "Hallo", "api_key": key} | further
            return client.request(
                method, path, **{"params" if method == "GET" else "json": fields}
            ).status_code

        hog = [pool.submit(ask, first, method, path, **further) for _ in range(24)]
        wait_for(lambda: looks.requests + sum(map(Future.done, hog)) == 24)
        held = looks.requests
        polite = [pool.submit(ask, key) for key in others]
        wait_for(lambda: looks.requests == held + 2)
        engine.gate.set()
        assert {one.result() for one in polite} == {200}
        assert sorted(one.result() for one in hog) == [200] * held + [429] * (24 - held)
