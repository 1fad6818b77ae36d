"""DeepL's interface: translations, usage and glossaries."""

from __future__ import annotations

import re

import pytest

from tests.support.servers.keys import KeyFile

HELLO = {"text": ["Hello world"], "source_lang": "EN", "target_lang": "DE"}


def ask(client, **fields):
    return client.post("/v2/translate", json=HELLO | fields)


@pytest.mark.parametrize(
    "parts",
    [
        {"json": HELLO | {"text": "Hello world"}},
        {
            "json": HELLO
            | {
                "unknown": {"a": 1},
                "formality": "prefer_more",
                "model_type": None,
                "split_sentences": 1,
            }
        },
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
    assert [
        options.beam_size for _, _, options, _, _ in engine.submitted if options.target is None
    ] == [beam]


def test_an_empty_text_is_an_empty_text(client):
    assert ask(client, text=[""]).json()["translations"][0] == {
        "detected_source_language": "EN",
        "text": "",
        "billed_characters": 0,
    }


@pytest.mark.parametrize(
    ("tags", "text", "billed"),
    [
        ("html", '<p title="a">Hello <b>world</b> &amp; me<!-- x --></p><script>x</script>', 16),
        ("xml", '<a:p x="1">Hello <g/>w&#246;rld</a:p><![CDATA[a <b>]]>', 16),
        (None, "Hello <b>", 9),
    ],
)
def test_billed_characters_are_those_of_the_text(client, tags, text, billed):
    before = client.get("/v2/usage").json()["character_count"]
    answer = ask(client, text=[text, text], tag_handling=tags).json()["translations"]
    assert [each["billed_characters"] for each in answer] == [billed, billed]
    assert client.get("/v2/usage").json()["character_count"] - before == 2 * billed


@pytest.mark.parametrize("target", ["EN-GB", "EN-US", "en-us", "EN"])
def test_regional_targets(client, target):
    assert (
        ask(client, source_lang="DE", target_lang=target).json()["translations"][0]["text"]
        == "dlrow olleH"
    )


@pytest.mark.parametrize(
    ("split", "expected"),
    [("0", "!eerhT .owt eno"), ("1", "eno\n.owt !eerhT"), ("nonewlines", ".owt eno !eerhT")],
)
def test_where_sentences_are_split(client, split, expected):
    assert (
        ask(client, text=["one\ntwo. Three!"], split_sentences=split).json()["translations"][0][
            "text"
        ]
        == expected
    )


def test_xml_keeps_ignored_elements_and_follows_words(client):
    text = 'Save <x id="1">the &amp; <y>file</y></x> <g id="2">now</g>'
    answer = ask(client, text=[text], tag_handling="xml", ignore_tags="x").json()["translations"][
        0
    ]["text"]
    assert answer.count('<x id="1">the &amp; <y>file</y></x>') == 1
    assert '<g id="2">won</g>' in answer


def test_html_keeps_ignored_elements_within_their_sentence(client):
    answer = ask(
        client,
        text=["one <x>a <x>b</x> &amp;</x> two <br>"],
        tag_handling="html",
        ignore_tags=["x", "br"],
    )
    translated = answer.json()["translations"][0]["text"]
    assert translated.count("<x>a <x>b</x> &amp;</x>") == translated.count("<br>") == 1
    assert re.sub("<.*>", "", translated).split() == ["owt", "eno"]


def test_splitting_tags_end_a_sentence(client):
    answer = ask(
        client, text=["<t>one</t><t>two</t>"], tag_handling="xml", splitting_tags=["t"]
    ).json()
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
    languages = {
        entry["language"]: entry["name"]
        for entry in client.request("GET", "/v2/languages", **parts).json()
    }
    assert languages["EN-GB"] == "English (British)"
    assert {"EN-US", "DE", "FR"} <= set(languages) and "EN" not in languages


def test_languages_of_a_resource(client):
    listed = {
        one["lang"]: one for one in client.get("/v3/languages?resource=translate_text").json()
    }
    assert listed["en"] | {"features": 0} == {
        "lang": "en",
        "name": "English",
        "usable_as_source": True,
        "usable_as_target": False,
        "status": "stable",
        "features": 0,
    }
    assert (
        listed["en-GB"]["usable_as_target"] and "auto_detection" not in listed["en-GB"]["features"]
    )
    assert {*listed["de"]["features"]} == {"auto_detection", "glossary", "tag_handling"}
    assert client.get("/v3/languages?resource=write").json() == []
    assert (
        client.get("/v3/languages").status_code
        == client.get("/v3/languages?resource=x").status_code
        == 400
    )


def test_functions_that_are_not_offered_say_so(client):
    for path in ("/v2/write/rephrase", "/v3/style_rules", "/v3/translation_memories"):
        answer = client.post(path, json={})
        assert (answer.status_code, "does not have this function" in answer.json()["message"]) == (
            404,
            True,
        )


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


DEVICES = {
    "name": "Devices",
    "source_lang": "EN",
    "target_lang": "DE",
    "entries": "Battery\tAkku\ndevice\tGerät",
}


def translated(client, **fields):
    body = {"text": ["Battery"], "source_lang": "EN", "target_lang": "DE"} | fields
    answer = client.post("/v2/translate", json=body)
    return answer.status_code, answer.json()["translations"][0][
        "text"
    ] if answer.is_success else answer.json()


def test_a_glossary_is_created_listed_read_and_deleted(client):
    answer = client.post("/v2/glossaries", json=DEVICES)
    created = answer.json()
    assert answer.status_code == 201
    assert (created["name"], created["ready"], created["entry_count"]) == ("Devices", True, 2)
    assert (created["source_lang"], created["target_lang"]) == ("en", "de")
    path = f"/v2/glossaries/{created['glossary_id']}"
    assert client.get(path).json() == created
    assert client.get("/v2/glossaries").json() == {"glossaries": [created]}
    entries = client.get(path + "/entries", headers={"Accept": "text/tab-separated-values"})
    assert entries.text == DEVICES["entries"]
    assert entries.headers["content-type"].startswith("text/tab-separated-values")
    assert (
        client.get(path + "/entries", headers={"Accept": "text/csv"}).text
        == "Battery,Akku\ndevice,Gerät\n"
    )
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("name", ["dictionaries[{}].{}", "dictionaries[{}][{}]"])
def test_dictionaries_in_a_form_keep_their_order(client, name):
    pairs = [("EN", "DE", "device\tGerät"), ("DE", "EN", "Akku\tbattery\nGerät\tdevice")]
    form = {"name": "Both"}
    for number, pair in enumerate(pairs):
        form |= {
            name.format(number, key): value
            for key, value in zip(("source_lang", "target_lang", "entries"), pair, strict=True)
        }
    created = client.post("/v3/glossaries", data=form)
    assert created.status_code == 201
    described = [
        (one["source_lang"], one["target_lang"], one["entry_count"])
        for one in created.json()["dictionaries"]
    ]
    assert described == [("en", "de", 1), ("de", "en", 2)]
    path = f"/v3/glossaries/{created.json()['glossary_id']}"
    added = {key.replace("[1]", "[0]"): value for key, value in form.items() if "[1]" in key} | {
        name.format(0, "entries"): "a\tb"
    }
    assert client.patch(path, data=added).json()["dictionaries"][1]["entry_count"] == 3
    assert client.patch(path, data={"dictionary": "x"}).status_code == 400


@pytest.mark.parametrize(
    "field",
    [
        "dictionaries.0.source_lang",
        "dictionaries[x].entries",
        "dictionaries[0]",
        "dictionaries[0].source_lang",
    ],
)
def test_dictionaries_are_read_or_refused(client, field):
    assert client.post("/v3/glossaries", data={"name": "x", field: "EN"}).status_code == 400
    # as at DeepL: added later
    assert client.post("/v3/glossaries", data={"name": "x"}).json()["dictionaries"] == []


def test_translations_use_glossaries(client):
    first = client.post("/v2/glossaries", json=DEVICES).json()["glossary_id"]
    other = client.post("/v2/glossaries", json=DEVICES | {"entries": "Battery\tBatterie"}).json()[
        "glossary_id"
    ]
    assert translated(client) == (200, "yrettaB")
    assert translated(client, glossary_id=first) == (200, "Akku")
    assert translated(client, glossary_ids=[other, first]) == (200, "Batterie")
    asked = {"q": "Battery", "source": "en", "target": "de", "glossary": first}
    assert client.post("/translate", json=asked).json()["translatedText"] == "Akku"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"source_lang": None}, 400),
        ({"target_lang": "FR"}, 400),
        ({"glossary_id": "unknown"}, 404),
        ({"glossary_ids": ["a"]}, 400),
    ],
)
def test_a_glossary_that_does_not_fit_is_refused(client, fields, status):
    id = client.post("/v2/glossaries", json=DEVICES).json()["glossary_id"]
    found = translated(client, **({"glossary_id": id} | fields))
    assert found[0] == status
    assert isinstance(found[1]["message"], str)


@pytest.mark.parametrize(
    "fields",
    [
        {"entries": ""},
        {"entries": "no tab"},
        {"name": ""},
        {"target_lang": "EN"},
        {"target_lang": "xx"},
        {"entries_format": "xml"},
        {"entries": "x" * 400 + "\ty"},
    ],
)
def test_a_wrong_glossary_is_refused(client, fields):
    answer = client.post("/v2/glossaries", json=DEVICES | fields)
    assert answer.status_code == 400
    assert isinstance(answer.json()["message"], str)


@pytest.mark.parametrize(
    "glossary",
    [
        {"Battery": "Akku"},
        [["Battery", "Akku"]],
        [{"source": "Battery", "target": "Akku", "exact": False}],
        '{"Battery": "Akku"}',
    ],
)
def test_pairs_are_part_of_a_request(client, glossary):
    asked = {"q": ["Battery", "Hello"], "source": "en", "target": "de", "glossary": glossary}
    assert client.post("/translate", json=asked).json()["translatedText"] == ["Akku", "olleH"]


@pytest.mark.parametrize(
    "glossary", ["[", [["a"]], [["a", ""]], {"a": "x" * 301}, 5, [["a", "b"]] * 1_001]
)
def test_wrong_pairs_are_one_sentence(client, glossary):
    asked = {"q": "Battery", "source": "en", "target": "de", "glossary": glossary}
    answer = client.post("/translate", json=asked)
    assert answer.status_code == 400
    assert "glossary" in answer.json()["error"]


def test_files_are_translated_with_a_glossary(client):
    fields = {"source": "en", "target": "de", "glossary": '{"Battery": "Akku"}'}
    answer = client.post("/translate_file", files={"file": ("a.txt", b"Battery")}, data=fields)
    assert client.get(answer.json()["translatedFileUrl"]).content == b"Akku"


def test_glossaries_belong_to_a_key(serve, tmp_path):
    secrets = [KeyFile(tmp_path).create(name)[0] for name in ("ann", "bob")]
    client = serve(data=tmp_path)
    ann, bob = ({"Authorization": f"DeepL-Auth-Key {secret}"} for secret in secrets)
    id = client.post("/v2/glossaries", json=DEVICES, headers=ann).json()["glossary_id"]
    assert len(client.get("/v2/glossaries", headers=ann).json()["glossaries"]) == 1
    for headers in (bob, {}):
        assert client.get("/v2/glossaries", headers=headers).json() == {"glossaries": []}
        assert client.get(f"/v2/glossaries/{id}", headers=headers).status_code == 404
    assert client.post("/v2/glossaries", json=DEVICES).status_code == 403


def test_language_pairs_of_glossaries_are_those_that_are_served(client):
    pairs = client.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert {"source_lang": "en", "target_lang": "de"} in pairs
    assert all(pair["source_lang"] != pair["target_lang"] for pair in pairs)
