"""The explorer's page, pictures and reports, and the APIs behind it, on the fake worker."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from model.config import small
from model.model_folder import ModelFolder, TokenizerFiles
from server.api.negotiation import preferred
from server.inspection.attention_view import MapView
from server.inspection.heatmap import render_heatmap
from server.translation.catalog import ModelCatalog
from server.web.assets import assets
from tests.support.fake_engine import fake_model

ASK = {"q": "Hello", "source": "en", "target": "de"}
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PNG, SVG = b"\x89PNG\r\n", b"<?xml"


@pytest.mark.parametrize("path", ["/", "/attention", "/attention?id=anything&layer=nonsense"])
def test_a_browser_gets_the_page_and_a_program_json(client, path):
    page = client.get(path, headers=BROWSER)
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert client.get(path).headers["content-type"] == "application/json"


def test_the_page_is_small_and_asks_nobody_else(client):
    page = client.get("/", headers=BROWSER).text
    files = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    sent = len(page) + sum(len(client.get(file).content) for file in files)
    assert sent < 150_000
    assert len(files) >= 5
    for name, asset in assets().items():
        foreign = set(re.findall(r"https?://[^\s\"'`)]+", asset.text)) - {"http://www.w3.org/2000/svg"}
        assert not foreign, name


def test_static_files_are_those_and_no_others(client):
    first = client.get("/static/app.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert client.get("/static/app.js", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    for name in ("index.html", "..%2f..%2fpyproject.toml", "../assets.py", "none.js"):
        assert client.get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/html", "text/html"),
        (BROWSER["Accept"], "text/html"),
        ("text/html;q=0.1, application/json", "application/json"),
        ("image/*", "application/json"),
        ("text/*;q=nonsense", "application/json"),
    ],
)
def test_negotiation(accept: str, wanted: str):
    assert preferred(accept, ("application/json", "text/html")) == wanted


def test_every_format_and_its_tag(client):
    starts = {"json": b"{", "npz": b"PK", "svg": SVG, "png": PNG, "html": b"<!doctype html>"}
    tags = set()
    for format, start in starts.items():
        answer = client.get("/attention", params=ASK | {"format": format, "kind": "cross", "translation": "Hallo"})
        assert answer.content.startswith(start)
        tag = answer.headers["etag"]
        tags.add(tag)
        again = client.get(
            "/attention",
            params=ASK | {"format": format, "kind": "cross", "translation": "Hallo"},
            headers={"If-None-Match": tag},
        )
        assert again.status_code == 304 and again.content == b""
    assert len(tags) == len(starts)
    for accept, start in (("image/png", PNG), ("image/svg+xml", SVG), ("application/x-npz", b"PK")):
        assert client.get("/attention", params=ASK, headers={"Accept": accept}).content.startswith(start)


def test_an_archive_holds_what_json_holds(client):
    asked = ASK | {"translation": "Hallo", "kind": "cross"}
    written = client.get("/attention", params=asked).json()
    with np.load(io.BytesIO(client.get("/attention", params=asked | {"format": "npz"}).content)) as archive:
        np.testing.assert_array_equal(archive["cross"], np.array(written["cross"], dtype=np.float32))
        assert archive["cross_queries"].tolist() == written["target"]["pieces"]


def test_packed_numbers_are_the_same_numbers(client):
    import base64

    asked = ASK | {"translation": "Hallo", "kind": "cross"}
    lists = np.array(client.get("/attention", params=asked).json()["cross"])
    for form, kind, scale in (("float32", "<f4", 1.0), ("uint16", "<u2", 65535.0)):
        found = client.get("/attention", params=asked | {"numbers": form}).json()
        unpacked = np.frombuffer(base64.b64decode(found["cross"]), dtype=kind).reshape(found["shapes"]["cross"]) / scale
        np.testing.assert_allclose(unpacked, lists, atol=1e-5)


def test_levels_rollout_and_scale(client):
    asked = {"q": "Good day", "source": "en", "target": "de", "kind": "cross"}
    word = client.get("/attention", params=asked | {"level": "word"}).json()
    shape = np.array(word["cross"]).shape
    assert shape[-2:] == (len(word["target"]["words"]), len(word["source"]["words"]))
    assert [w["text"] for w in word["source"]["words"]] == [">>de<<", "Good", "day", "</s>"]
    rolled = client.get("/attention", params=asked | {"kind": "encoder", "rollout": "true"}).json()
    assert rolled["heads"] == {"encoder": ["rollout"]}
    np.testing.assert_allclose(np.array(rolled["encoder"]).sum(axis=-1), 1.0, atol=1e-4)
    most = client.get("/attention", params=asked | {"normalize": "max"}).json()
    np.testing.assert_allclose(np.array(most["cross"]).max(axis=(-2, -1)), 1.0)


def test_figures_alignment_and_coverage(client):
    found = client.get("/attention", params={"q": "abc", "source": "en", "target": "de", "figures": "true"}).json()
    assert set(found["figures"]["cross"][0][0]) == {"entropy", "spread", "diagonality", "role", "role_share"}
    words = found["source"]["words"], found["target"]["words"]
    assert all(source < len(words[0]) and target < len(words[1]) for source, target, _ in found["alignment"]["links"])
    assert len(found["alignment"]["coverage"]) == len(words[0])


def test_words_are_aligned_by_all_evidence_where_the_model_translates_both_ways(client):
    asked = {"q": "one two three", "source": "en", "target": "de", "alignment": "combined"}  # the translation: eerht owt eno
    found = client.get("/attention", params=asked).json()
    assert found["alignment"]["method"] == "combined"
    texts = [[word["text"] for word in found[side]["words"]] for side in ("source", "target")]
    linked = {(texts[0][i], texts[1][j]) for i, j, _ in found["alignment"]["links"]}
    assert linked == {("one", "eno"), ("two", "owt"), ("three", "eerht")}
    assert all(0 < weight <= 1 for *_, weight in found["alignment"]["links"])
    assert client.get("/attention", params=asked | {"alignment": "attention"}).json()["alignment"]["method"] == "attention"
    report = client.get("/attention", params={"q": "one", "source": "en", "target": "de", "format": "html"})
    assert '"method":"combined"' in report.text.replace(" ", "")
    assert client.get("/attention", params=asked | {"alignment": "magic"}).status_code == 400


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


def test_a_trace_asks_the_worker_for_every_step(client, engine):
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
    folder = ModelFolder(
        path=tmp_path,
        name="toy",
        model=config,
        pairs=pairs,
        tags={},
        license="MIT",
        origin="",
        tokenizer=TokenizerFiles(),
    )
    (tmp_path / "config.json").write_text(folder.to_json())
    client = serve(ModelCatalog([dataclasses.replace(fake_model(pairs=pairs), folder=tmp_path)]))
    [leg] = client.get("/model", params={"source": "en", "target": "de"}).json()["legs"]
    assert leg["config"] == dataclasses.asdict(config) | {"head_dim": config.head_dim}
    assert client.get("/model", params={"source": "en", "target": "en"}).status_code == 404


def test_a_report_is_one_file_and_never_markup(client):
    attack = "</script><script>alert(1)</script><!--"
    answer = client.get("/attention", params=ASK | {"q": attack, "translation": attack, "format": "html"})
    page = answer.text
    assert "<script>alert" not in page and page.count("<script") == 3
    data = re.search(r'<script type="application/json" id="look">(.*?)</script>', page, re.S)
    assert data is not None and json.loads(data[1])["source"]["text"] == attack
    assert not re.search(r'(?:src|href)="', page)
    assert "'sha256-" in answer.headers["content-security-policy"]


def test_pictures_of_any_script_and_size():
    labels = tuple("猫 שלום مرحبا $x^2$ \x00 {} <b> &amp;".split(" ")), ("long" * 60, "b", "c")
    weights = np.full((1, 1, len(labels[0]), 3), 1 / 3, dtype=np.float32)
    single = [MapView("cross", weights, (0,), (0,), *labels)]
    assert render_heatmap(single, "png", "$ title \n two").startswith(PNG)
    svg = render_heatmap(single, "svg", "title").decode()
    assert "猫" in svg and "שלום" in svg and "<b>" not in svg
    zeros = np.zeros((2, 3, 60, 60), dtype=np.float32)
    grid = [MapView("encoder", zeros, (0, 1), (0, 1, 2), ("x",) * 60, ("y",) * 60)]
    assert render_heatmap(grid, "png", "").startswith(PNG)


def test_too_many_maps_for_a_picture_are_refused(client, engine, monkeypatch):
    monkeypatch.setattr("server.inspection.heatmap.MAPS_LIMIT", 3)
    answer = client.get("/attention", params=ASK | {"format": "png"})
    assert answer.status_code == 400 and "choose" in answer.json()["error"]
    monkeypatch.setattr("server.api.attention_formats.WEIGHTS_LIMIT", 10)
    assert client.get("/attention", params=ASK).status_code == 400
