"""Formats and views of GET /attention."""

from __future__ import annotations

import base64
import io
import json
import re

import numpy as np
import orjson
import pytest

from server.api.attention_formats import _json

ASK = {"q": "Hello", "source": "en", "target": "de"}
PNG, SVG = b"\x89PNG\r\n", b"<?xml"


def test_formats(client):
    starts = {
        "json": b"{",
        "npz": b"PK",
        "svg": SVG,
        "png": PNG,
        "pdf": b"%PDF",
        "html": b"<!doctype html>",
    }
    for format, start in starts.items():
        fields = ASK | {"format": format, "kind": "cross", "translation": "Hallo"}
        answer = client.get("/attention", params=fields)
        assert answer.content.startswith(start)
    for accept, start in (("image/png", PNG), ("image/svg+xml", SVG), ("application/x-npz", b"PK")):
        assert client.get("/attention", params=ASK, headers={"Accept": accept}).content.startswith(
            start
        )


def test_an_archive_has_the_same_maps_as_json(client):
    fields = ASK | {"translation": "Hallo", "kind": "cross"}
    written = client.get("/attention", params=fields).json()
    with np.load(
        io.BytesIO(client.get("/attention", params=fields | {"format": "npz"}).content)
    ) as archive:
        np.testing.assert_array_equal(
            archive["cross"], np.array(written["cross"], dtype=np.float32)
        )
        assert archive["cross_queries"].tolist() == written["target"]["pieces"]


def test_base64_numbers_equal_the_lists(client):
    fields = ASK | {"translation": "Hallo", "kind": "cross"}
    lists = np.array(client.get("/attention", params=fields).json()["cross"])
    for form, kind, scale in (("float32", "<f4", 1.0), ("uint16", "<u2", 65535.0)):
        answer = client.get("/attention", params=fields | {"numbers": form}).json()
        unpacked = (
            np.frombuffer(base64.b64decode(answer["cross"]), dtype=kind).reshape(
                answer["shapes"]["cross"]
            )
            / scale
        )
        np.testing.assert_allclose(unpacked, lists, atol=1e-5)


def test_levels_rollout_and_scale(client):
    fields = {"q": "Good day", "source": "en", "target": "de", "kind": "cross"}
    word = client.get("/attention", params=fields | {"level": "word"}).json()
    shape = np.array(word["cross"]).shape
    assert shape[-2:] == (len(word["target"]["words"]), len(word["source"]["words"]))
    assert [w["text"] for w in word["source"]["words"]] == [">>de<<", "Good", "day", "</s>"]
    rolled = client.get("/attention", params=fields | {"kind": "encoder", "rollout": "true"}).json()
    assert rolled["heads"] == {"encoder": ["rollout"]}
    np.testing.assert_allclose(np.array(rolled["encoder"]).sum(axis=-1), 1.0, atol=1e-4)
    most = client.get("/attention", params=fields | {"normalize": "max"}).json()
    np.testing.assert_allclose(np.array(most["cross"]).max(axis=(-2, -1)), 1.0)


def test_figures_alignment_and_coverage(client):
    answer = client.get(
        "/attention", params={"q": "abc", "source": "en", "target": "de", "figures": "true"}
    ).json()
    assert set(answer["figures"]["cross"][0][0]) == {
        "entropy",
        "spread",
        "diagonality",
        "role",
        "role_share",
    }
    words = answer["source"]["words"], answer["target"]["words"]
    assert all(
        source < len(words[0]) and target < len(words[1])
        for source, target, _ in answer["alignment"]["links"]
    )
    assert len(answer["alignment"]["coverage"]) == len(words[0])


def test_combined_alignment_of_a_model_for_both_directions(client):
    fields = ASK | {"q": "one two three", "alignment": "combined"}  # the translation: eerht owt eno
    answer = client.get("/attention", params=fields).json()
    assert answer["alignment"]["method"] == "combined"
    texts = [[word["text"] for word in answer[side]["words"]] for side in ("source", "target")]
    linked = {(texts[0][i], texts[1][j]) for i, j, _ in answer["alignment"]["links"]}
    assert linked == {("one", "eno"), ("two", "owt"), ("three", "eerht")}
    assert all(0 < weight <= 1 for *_, weight in answer["alignment"]["links"])
    simple = client.get("/attention", params=fields | {"alignment": "attention"}).json()
    assert simple["alignment"]["method"] == "attention"
    report = client.get(
        "/attention", params={"q": "one", "source": "en", "target": "de", "format": "html"}
    )
    assert '"method":"combined"' in report.text.replace(" ", "")
    assert client.get("/attention", params=fields | {"alignment": "magic"}).status_code == 400


def test_a_report_is_one_file_and_escapes_its_data(client):
    attack = "</script><script>alert(1)</script><!--"
    answer = client.get(
        "/attention", params=ASK | {"q": attack, "translation": attack, "format": "html"}
    )
    page = answer.text
    assert "<script>alert" not in page and page.count("<script") == 3
    data = re.search(r'<script type="application/json" id="look">(.*?)</script>', page, re.S)
    assert data is not None and json.loads(data[1])["source"]["text"] == attack
    assert not re.search(r'(?:src|href)="', page)
    assert "'sha256-" in answer.headers["content-security-policy"]


def test_a_decoder_with_a_recurrence_has_no_maps_but_forget_gates(client, engine):
    assert "forget_gates" not in client.get("/attention", params=ASK).json()
    engine.decoder_heads = 0
    answer = client.get("/attention", params=ASK | {"figures": "true"}).json()
    assert set(answer["shapes"]) == set(answer["figures"]) == {"cross", "encoder"}
    assert "recurrence" in answer["absent"]["decoder"]
    assert answer["forget_gates"] == [[0.25] * len(answer["decoder_input"]["pieces"])] * 2
    for format in ("json", "npz", "png"):
        refused = client.get("/attention", params=ASK | {"kind": "decoder", "format": format})
        assert (refused.status_code, refused.json()["error"]) == (404, answer["absent"]["decoder"])
    assert (
        client.get("/attention", params=ASK | {"format": "svg", "head": "mean"}).status_code == 200
    )
    assert client.get("/attention", params=ASK | {"rollout": "true"}).status_code == 400


def test_limits_of_pictures_and_of_weights(client, engine, monkeypatch):
    monkeypatch.setattr("server.inspection.pictures.picture.MAPS_LIMIT", 3)
    answer = client.get("/attention", params=ASK | {"format": "png"})
    assert answer.status_code == 400 and "at most 3 maps" in answer.json()["error"]
    monkeypatch.setattr("server.inspection.pictures.picture.MAPS_LIMIT", 144)
    monkeypatch.setattr("server.inspection.pictures.picture.CELLS_LIMIT", 3)
    assert (
        "at most 3 weights"
        in client.get("/attention", params=ASK | {"format": "png"}).json()["error"]
    )
    monkeypatch.setattr("server.api.attention_formats.WEIGHTS_LIMIT", 10)
    assert client.get("/attention", params=ASK).status_code == 400


def test_pictures_have_views_themes_and_sizes(client):
    def svg(**fields) -> str:
        answer = client.get("/attention", params=ASK | {"q": "one two", "format": "svg"} | fields)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"] == 'inline; filename="attention.svg"'
        return answer.text

    one = {"kind": "cross", "layer": "0", "head": "0"}
    assert ">owt<" in svg(**one, level="word") and ">&lt;/s&gt;<" in svg(**one)
    assert "&lt;/s&gt;" not in svg(**one, special="0") and "de&lt;&lt;" not in svg(
        **one, special="0"
    )
    assert 'width="333"' in svg(**one, width="333") and "#191b23" in svg(**one, theme="dark")
    assert ">A &lt;b&gt; title<" in svg(**one, title="A <b> title") and ">one two<" not in svg(
        **one, title=""
    )
    lines = svg(kind="encoder", layer="0", head="1,0", view="lines", query="O")
    assert ">encoder, layer 0, head 1<" in lines and 0 < lines.count("stroke-opacity") <= 2 * 9
    assert svg(view="alignment") != svg(view="alignment", query="owt")
    assert ">cross, layer 0, head 1<" in svg(view="alignment", layer="0", head="1")
    card = svg(view="card", masked_heads="cross.0.1,encoder.0.0")
    assert 'width="1200" height="630"' in card and ">English \u2192 German<" in card
    assert "without cross.0.1, encoder.0.0" in card


ONE = {"kind": "cross", "layer": "0", "head": "0", "level": "word"}
LINES = {"kind": "cross", "layer": "0", "level": "word", "view": "lines"}


@pytest.mark.parametrize(
    "view", [ONE, ONE | {"head": "mean"}, LINES, {"kind": "cross"}, {"view": "alignment"}, {}]
)
def test_a_picture_of_any_view_shows_nothing_of_heads_that_are_off_and_names_them(client, view):
    def svg(**fields) -> str:
        return client.get(
            "/attention", params=ASK | {"q": "one two", "format": "svg"} | view | fields
        ).text

    def weights(picture: str) -> int:
        """Returns the number of cells and lines with a weight, without those of the legend and the
        scale."""
        return picture.count(" stroke-opacity=") + picture.partition(">0.00<")[0].count("v1h")

    mask = ",".join(f"cross.{layer}.{head}" for layer in range(2) for head in range(2))
    every, some, none = (
        svg(**fields) for fields in ({}, {"masked_heads": "cross.0.0"}, {"masked_heads": mask})
    )
    assert "without cross.0.0" in some and "without" not in every
    said = " ".join(re.findall(r">([^<>]+)</text>", none))  # a title is broken into lines
    assert "without cross.0.0, cross.0.1, cross.1.0 and 1 more head" in said
    assert weights(every) > weights(none)
    if view:
        assert weights(none) <= 60  # of the scale


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"format": "svg", "width": "99"}, "width"),
        ({"format": "png", "dpi": "601"}, "dpi"),
        ({"format": "pdf", "dpi": "100"}, "dpi is for pictures; give format=png with it."),
        (
            {"format": "json", "theme": "dark"},
            "theme is for pictures; give format=svg, png or pdf with it.",
        ),
        ({"format": "html", "title": ""}, "title is for pictures"),
        ({"format": "svg", "title": "x" * 301}, "title"),
        ({"format": "svg", "theme": "pink"}, "theme"),
        ({"format": "svg", "view": "pie"}, "view"),
        ({"format": "svg", "view": "card", "layer": "0"}, "give layer and head"),
        ({"format": "svg", "view": "card", "query": "Hund"}, "query names no row"),
        ({"format": "svg", "view": "lines"}, "one layer of one kind"),
        ({"format": "svg", "view": "map"}, "view=map shows one map"),
        ({"format": "svg", "query": "0"}, "query is for"),
        (
            {"format": "svg", "view": "lines", "kind": "cross", "layer": "0", "query": "99"},
            "query must be between 0 and 5",
        ),
        ({"format": "svg", "head": "0,9", "kind": "cross"}, "head must be between 0 and 1"),
        (
            {"format": "svg", "head": "0;1"},
            "must be a number, several such as 0,3, or one of all, mean, max",
        ),
    ],
)
def test_what_no_picture_has_is_refused(client, fields, said):
    answer = client.get("/attention", params=ASK | fields)
    assert answer.status_code == 400 and said in answer.json()["error"], answer.text


@pytest.mark.parametrize(
    "shape", [(2, 3, 5, 7), (1, 1, 40, 3), (1, 1, 2, 90), (70,), (0, 4), (3, 0)]
)
def test_large_maps_are_written_in_parts_that_are_bounded(monkeypatch, shape):
    values, sizes = np.random.default_rng(1).random(shape, dtype=np.float32), []
    values[values < 0.1] = np.nan
    written = orjson.dumps

    def counted(part, option=0):
        sizes.append(part.size)
        return written(part, option=option)

    monkeypatch.setattr("server.api.attention_formats.LOOP_WEIGHTS", 20)
    monkeypatch.setattr("server.api.attention_formats.orjson.dumps", counted)
    assert _json(values) == written(values, option=orjson.OPT_SERIALIZE_NUMPY)
    assert max(sizes) <= 20
