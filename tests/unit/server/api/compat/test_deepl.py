"""DeepL-compatible translation with the fake worker: parameters, answers, errors and markup."""

from __future__ import annotations

import re

import pytest

HELLO = {"text": ["Hello world"], "source_lang": "EN", "target_lang": "DE"}


def ask(client, **fields):
    return client.post("/v2/translate", json=HELLO | fields)


@pytest.mark.parametrize(
    "parts",
    [
        {"json": HELLO | {"text": "Hello world"}},
        {"json": HELLO | {"unknown": {"a": 1}, "formality": "prefer_more", "model_type": None, "split_sentences": 1}},
        {"data": HELLO | {"split_sentences": "nonewlines", "source_lang": ""}},
    ],
)
def test_every_way_to_ask(client, parts):
    answer = client.post("/v2/translate", **parts)
    expected = {"detected_source_language": "EN", "text": "dlrow olleH", "billed_characters": 11}
    if "prefer_more" in str(parts):
        expected["formality_used"] = "default"
    assert answer.json() == {"translations": [expected]}
    assert answer.headers["x-trace-id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("asked", "used", "beam"),
    [
        ("quality_optimized", "quality_optimized", 4),
        ("prefer_quality_optimized", "quality_optimized", 4),
        ("latency_optimized", "latency_optimized", 1),
    ],
)
def test_the_model_type_chooses_reranking(client, engine, asked, used, beam):
    [translation] = ask(client, model_type=asked).json()["translations"]
    assert translation["model_type_used"] == used
    assert [options.beam_size for _, _, options, _, _ in engine.submitted if options.target is None] == [beam]


def test_an_empty_text_is_an_empty_text(client):
    assert ask(client, text=[""]).json()["translations"][0] == {
        "detected_source_language": "EN",
        "text": "",
        "billed_characters": 0,
    }


@pytest.mark.parametrize("target", ["EN-GB", "EN-US", "en-us", "EN"])
def test_regional_targets(client, target):
    assert ask(client, source_lang="DE", target_lang=target).json()["translations"][0]["text"] == "dlrow olleH"


@pytest.mark.parametrize(
    ("split", "expected"),
    [("0", "!eerhT .owt eno"), ("1", "eno\n.owt !eerhT"), ("nonewlines", ".owt eno !eerhT")],
)
def test_where_sentences_are_split(client, split, expected):
    assert ask(client, text=["one\ntwo. Three!"], split_sentences=split).json()["translations"][0]["text"] == expected


def test_xml_keeps_ignored_elements_and_follows_words(client):
    text = 'Save <x id="1">the &amp; <y>file</y></x> <g id="2">now</g>'
    answer = ask(client, text=[text], tag_handling="xml", ignore_tags="x").json()["translations"][0]["text"]
    assert answer.count('<x id="1">the &amp; <y>file</y></x>') == 1
    assert '<g id="2">won</g>' in answer


def test_html_keeps_ignored_elements_within_their_sentence(client):
    answer = ask(client, text=["one <x>a <x>b</x> &amp;</x> two <br>"], tag_handling="html", ignore_tags=["x", "br"])
    translated = answer.json()["translations"][0]["text"]
    assert translated.count("<x>a <x>b</x> &amp;</x>") == translated.count("<br>") == 1
    assert re.sub("<.*>", "", translated).split() == ["owt", "eno"]


def test_splitting_tags_end_a_sentence(client):
    answer = ask(client, text=["<t>one</t><t>two</t>"], tag_handling="xml", splitting_tags=["t"]).json()
    assert answer["translations"][0]["text"] == "<t>eno</t><t>owt</t>"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"text": []}, 400),
        ({"target_lang": "XX"}, 400),
        ({"source_lang": "XX"}, 400),
        ({"glossary_id": "1", "source_lang": None}, 400),
        ({"glossary_id": "1", "glossary_ids": ["1"]}, 400),
        ({"glossary_id": "1"}, 404),
        ({"tag_handling": "markdown"}, 400),
        ({"text": ["x" * 100_001]}, 400),
    ],
)
def test_errors_are_strings(client, fields, status):
    answer = ask(client, **fields)
    assert answer.status_code == status
    assert isinstance(answer.json()["message"], str)
    assert answer.headers["x-trace-id"]


@pytest.mark.parametrize("parts", [{"data": {"type": "target"}}, {"params": {"type": "target"}}])
def test_target_languages_are_regional(client, parts):
    languages = {entry["language"]: entry["name"] for entry in client.request("GET", "/v2/languages", **parts).json()}
    assert languages["EN-GB"] == "English (British)"
    assert {"EN-US", "DE", "FR"} <= set(languages) and "EN" not in languages


def test_languages_of_a_resource(client):
    listed = {one["lang"]: one for one in client.get("/v3/languages?resource=translate_text").json()}
    assert listed["en"] | {"features": 0} == {
        "lang": "en",
        "name": "English",
        "usable_as_source": True,
        "usable_as_target": False,
        "status": "stable",
        "features": 0,
    }
    assert listed["en-GB"]["usable_as_target"] and "auto_detection" not in listed["en-GB"]["features"]
    assert {*listed["de"]["features"]} == {"auto_detection", "glossary", "tag_handling"}
    assert client.get("/v3/languages?resource=write").json() == []
    assert client.get("/v3/languages").status_code == client.get("/v3/languages?resource=x").status_code == 400


def test_functions_that_are_not_offered_say_so(client):
    for path in ("/v2/write/rephrase", "/v3/style_rules", "/v3/translation_memories"):
        answer = client.post(path, json={})
        assert (answer.status_code, "does not have this function" in answer.json()["message"]) == (404, True)


@pytest.mark.parametrize("name", ["source_lang", "target_lang"])
def test_a_wrong_language_is_named(client, name):
    assert f"Value for '{name}' not supported" in ask(client, **{name: "xx"}).json()["message"]
    body = {"name": "x", "source_lang": "EN", "target_lang": "DE", "entries": "a\tb"} | {name: "xx"}
    assert name in client.post("/v2/glossaries", json=body).json()["message"]


def test_source_languages_and_invalid_types(client):
    for path in ("/v2/languages", "/v2/languages?type="):
        assert [entry["language"] for entry in client.get(path).json()] == ["DE", "EN", "FR"]
    assert client.get("/v2/languages?type=both").status_code == 400


def test_usage_counts_the_characters_of_a_key(serve, tmp_path):
    from tests.support.servers.keys import KeyFile

    secret, _ = KeyFile(tmp_path).create("me")
    client = serve(data=tmp_path)
    key = {"Authorization": f"DeepL-Auth-Key {secret}"}
    client.post("/v2/translate", json=HELLO)
    assert client.get("/v2/usage").json()["character_count"] == 11
    client.post("/v2/translate", json=HELLO, headers=key)
    assert client.get("/v2/usage", headers=key).json()["character_count"] == 11
    assert client.get("/v2/usage", params={"auth_key": secret}).json()["character_count"] == 11
    assert client.get("/v2/usage", headers={"Authorization": "DeepL-Auth-Key x"}).status_code == 403
