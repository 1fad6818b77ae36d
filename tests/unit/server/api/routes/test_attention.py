"""GET /attention with the fake worker: choice of sentence and maps, and errors."""

from __future__ import annotations

import base64
import dataclasses
import time

import numpy as np
import pytest

from server.store.history import new_id
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import FIRST_LAYER, fake_model
from tests.support.servers.keys import KeyFile

ASK = {"q": "Hello", "source": "en", "target": "de"}
SUM = {"head": "sum"}
TEXT = "Hello. 42.\nGood day."


@pytest.fixture
def served(client) -> str:
    return client.post("/translate", json={"q": TEXT, "source": "en", "target": "de"}).json()["id"]


def test_the_alignment_layer_is_that_which_the_model_was_read_with(serve, tmp_path) -> None:
    model = dataclasses.replace(fake_model(), folder=tmp_path)
    (tmp_path / "alignment.json").write_text("changed later, and invalid")
    asked = ASK
    found = serve(ModelCatalog([model])).get("/attention", params=asked).json()
    assert dataclasses.asdict(FIRST_LAYER).items() <= found["alignment"].items()


def test_a_new_translation_has_an_id_if_it_is_stored(client) -> None:
    found = client.get("/attention", params=ASK | {"source": "auto"}).json()
    assert found["target"]["text"] == "olleH"
    assert client.get("/attention", params={"id": found["id"]}).json()["target"]["text"] == "olleH"
    assert (
        client.get("/attention", params=ASK, headers={"Cache-Control": "no-store"}).json()["id"]
        is None
    )


def test_maps_of_an_earlier_translation(client, engine, served):
    found = client.get("/attention", params={"id": served, "sentence": 2}).json()
    assert found["id"] == served
    assert (found["sentence"], found["sentences"]) == (2, 3)
    assert found["source"]["text"] == "Good day." and found["target"]["text"] == ".yad dooG"
    assert found["source"]["pieces"] == [">>de<<", *"Good day.", "</s>"]
    assert found["source"]["offsets"][1] == [0, 1]
    assert found["target"]["pieces"] == [*".yad dooG", "</s>"]
    assert found["decoder_input"]["pieces"] == ["<s>", *".yad dooG"]
    size_s, size_t = 11, 10
    shapes = {
        "cross": (2, 2, size_t, size_s),
        "encoder": (2, 2, size_s, size_s),
        "decoder": (2, 2, size_t, size_t),
    }
    for kind, shape in shapes.items():
        maps = np.array(found[kind])
        assert maps.shape == shape
        assert np.allclose(maps.sum(axis=-1), 1.0, atol=1e-4)
    assert len(found["target"]["scores"]) == size_t


def test_the_text_and_its_words_are_those_that_were_typed(client):
    found = client.get("/attention", params=ASK | {"q": "GOOD DAY."}).json()["source"]
    assert found["text"] == "GOOD DAY." and [word["text"] for word in found["words"]][1:-1] == [
        "GOOD",
        "DAY",
        ".",
    ]
    assert found["pieces"] == [">>de<<", *"Good day.", "</s>"]


def test_choice_of_kind_layer_and_head(client, served):
    whole = client.get("/attention", params={"id": served}).json()
    part = client.get(
        "/attention", params={"id": served, "kind": "cross", "layer": 1, "head": 0}
    ).json()
    assert "encoder" not in part
    assert np.array_equal(part["cross"], np.array(whole["cross"])[1:2, 0:1])
    assert (part["layers"], part["heads"]) == ({"cross": [1]}, {"cross": [0]})
    mean = client.get("/attention", params={"id": served, "kind": "cross", "head": "mean"}).json()
    assert np.allclose(mean["cross"], np.array(whole["cross"]).mean(axis=1, keepdims=True))
    assert mean["heads"] == {"cross": ["mean"]}


def test_contributions_are_a_measure_of_cross_attention(client, served):
    asked = {"id": served, "kind": "cross", "measure": "contributions"}
    heads, summed = (
        np.array(client.get("/attention", params=asked | more).json()["cross"])
        for more in ({}, SUM)
    )
    assert np.allclose(heads.sum(axis=1, keepdims=True), summed)  # equal vectors of all heads
    packed = client.get("/attention", params=asked | SUM | {"numbers": "uint16"}).json()
    assert packed["heads"] == {"cross": ["sum"]}
    found = np.frombuffer(base64.b64decode(packed["cross"]), "<u2").reshape(summed.shape) / 65535
    assert np.allclose(found, summed / summed.max(axis=(2, 3), keepdims=True), atol=1e-4)
    assert (
        client.get("/attention", params=asked | SUM | {"layer": 0, "format": "svg"}).status_code
        == 200
    )
    for wrong in ({"kind": "all"}, {"kind": "encoder"}, {"rollout": 1}):
        refused = client.get("/attention", params=asked | wrong)
        assert refused.status_code == 400 and refused.json()["error"].startswith(
            "Contributions are those of cross"
        )


def test_effects_hide_each_source_word(client, engine, served):
    asked = {"id": served, "sentence": 2, "kind": "cross", "level": "word", "measure": "effect"}
    found = client.get("/attention", params=asked).json()
    words = [[word["text"] for word in found[side]["words"]] for side in ("target", "source")]
    assert (words[1], found["heads"]) == (
        [">>de<<", "Good", "day", ".", "</s>"],
        {"cross": ["effect"]},
    )
    assert np.array(found["cross"]).shape == (1, 1, len(words[0]), len(words[1]))
    ids = engine.attended[-1][0]
    hidden = [ids[:1] + ids[5:], ids[:5] + ids[9:], ids[:9] + ids[10:]]  # "Good", "day", "."
    assert [source for _, source, options, *_ in engine.submitted if options.target][-3:] == hidden
    for row, word in zip(found["cross"][0][0], found["target"]["words"], strict=True):
        # each piece has -0.01 instead of -0.1
        assert np.allclose(row[1:4], -0.09 * len(word["pieces"]), atol=1e-4)
        assert row[0] == row[4] == 0
    for wrong in (
        {"kind": "all"},
        {"level": "piece"},
        {"head": 0},
        {"format": "svg"},
        {"numbers": "uint16"},
    ):
        refused = client.get("/attention", params=asked | wrong)
        assert refused.status_code == 400 and refused.json()["error"].startswith("Effects")


def test_a_given_translation(client, engine):
    asked = ASK | {"translation": "Hallo"}
    found = client.get("/attention", params=asked).json()
    assert found["target"]["text"] == "Hallo" and found["id"] is None
    assert (
        client.get("/attention", params=asked).headers["Link"]
        == '<model?source=en&target=de>; rel="describedby"'
    )
    assert engine.submitted == []


def test_another_hypothesis_of_the_beam(client, engine, served):
    asked = {"id": served, "sentence": 2, "beam_size": 3}
    texts = [
        client.get("/attention", params=asked | {"hypothesis": n}).json()["target"]["text"]
        for n in range(3)
    ]
    assert texts == [".yad dooG", ".yad dooGx", ".yad dooGxx"]
    assert [options.hypotheses for _, _, options, _, _ in engine.submitted[-3:]] == [1, 2, 3]
    found = client.get("/attention", params=ASK | {"beam_size": 2, "hypothesis": 1})
    assert (found.json()["target"]["text"], found.json()["id"]) == ("olleHx", None)
    beyond = client.get("/attention", params=asked | {"hypothesis": 3})
    assert (beyond.status_code, beyond.json()["error"]) == (
        400,
        "hypothesis must be between 0 and 2 for a beam of 3.",
    )
    # greedy
    assert client.get("/attention", params={"id": served, "hypothesis": 1}).status_code == 400


def test_a_translation_that_begins_with_given_pieces(client, engine, served):
    found = client.get("/attention", params={"id": served, "sentence": 2, "prefix": [".", "y"]})
    assert found.status_code == 200 and found.json()["id"] is None
    assert engine.submitted[-1][2].prefix == tuple(100 + ord(character) for character in ".y")
    assert client.get("/attention", params={"id": served, "prefix": "H"}).status_code == 200
    unknown = client.get("/attention", params={"id": served, "prefix": "</s>"})
    assert (unknown.status_code, unknown.json()["error"]) == (
        400,
        "The model writes no piece “</s>”.",
    )
    given = ASK | {"translation": "Hallo"}
    for choice in ({"prefix": "H"}, {"hypothesis": 1, "beam_size": 2}):
        refused = client.get("/attention", params=given | choice)
        assert refused.status_code == 400 and "translation" in refused.json()["error"]
    assert (
        client.get("/attention", params={"id": served, "prefix": ["x"] * 2000}).status_code == 400
    )


def test_one_id_for_every_text_of_a_list(client):
    ids = client.post(
        "/translate", json={"q": ["One", "Two"], "source": "en", "target": "de"}
    ).json()["id"]
    texts = [client.get("/attention", params={"id": id}).json()["source"]["text"] for id in ids]
    assert texts == ["One", "Two"]


def test_legs_of_a_pivot(client):
    id = client.post("/translate", json={"q": "Eins", "source": "de", "target": "fr"}).json()["id"]
    first, second = (
        client.get("/attention", params={"id": id, "leg": leg}).json() for leg in (0, 1)
    )
    assert first["language"] == {"source": "de", "target": "en"}
    assert second["language"] == {"source": "en", "target": "fr"}
    assert client.get("/attention", params={"id": id, "leg": 2}).status_code == 400


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 400),
        ({"q": "Hello"}, 400),
        ({"q": "Hello", "source": "en", "target": "tlh"}, 400),
        ({"q": "", "source": "en", "target": "de"}, 400),
        ({"q": "42", "source": "en", "target": "de"}, 400),
        ({"q": "Hello", "source": "en", "target": "en"}, 400),
        ({"q": "Hello", "source": "de", "target": "fr", "translation": "x"}, 400),
        ({"q": "a " * 400, "source": "en", "target": "de", "translation": "x"}, 400),
        (ASK | {"sentence": 1}, 400),
        (ASK | {"sentence": -1}, 400),
        (ASK | {"layer": 2}, 400),
        (ASK | {"head": 2}, 400),
        ({"id": "nonsense"}, 404),
        ({"id": "x" * 65}, 400),
        ({"id": new_id(time.time() + 10_000)}, 404),
        ({"id": new_id(time.time() - 10_000)}, 410),
    ],
)
def test_errors(client, query, status):
    answer = client.get("/attention", params=query)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


def test_a_copied_sentence_has_no_maps(client, served):
    answer = client.get("/attention", params={"id": served, "sentence": 1})
    assert answer.status_code == 400 and "copied" in answer.json()["error"]


def test_without_a_history_an_id_is_not_found(serve):
    client = serve(history=False)
    id = client.post("/translate", json=ASK).json()["id"]
    assert client.get("/attention", params={"id": id}).status_code == 404
    assert client.get("/attention", params=ASK).json()["id"] is None


@pytest.mark.parametrize("route", ["/attention", "/trace"])
def test_the_share_of_the_worker_is_that_of_the_key(serve, engine, tmp_path, route):
    secret, _ = KeyFile(tmp_path).create("me")
    client, text = serve(data=tmp_path), ASK
    headers = {"Authorization": f"Bearer {secret}"}
    method = "GET" if route == "/attention" else "POST"
    options = {"params": text} if method == "GET" else {"json": text}
    assert client.request(method, route, headers=headers, **options).status_code == 200
    client.post("/translate", json=text | {"q": "Hello."}, headers=headers)
    callers = {submitted[4] for submitted in engine.submitted}
    assert len(callers) == 1 and all(caller.startswith("key ") for caller in callers)
