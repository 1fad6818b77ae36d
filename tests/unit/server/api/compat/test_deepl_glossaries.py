"""DeepL's glossaries under /v2 and /v3, and the parameter of translations that selects them."""

from __future__ import annotations

import pytest

from tests.support.servers.keys import KeyFile

DEVICES = {"name": "Devices", "source_lang": "EN", "target_lang": "DE", "entries": "Battery\tAkku\ndevice\tGerät"}


def translated(client, **fields):
    body = {"text": ["Battery"], "source_lang": "EN", "target_lang": "DE"} | fields
    answer = client.post("/v2/translate", json=body)
    return answer.status_code, answer.json()["translations"][0]["text"] if answer.is_success else answer.json()


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
    assert client.get(path + "/entries", headers={"Accept": "text/csv"}).text == "Battery,Akku\ndevice,Gerät\n"
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
    described = [(one["source_lang"], one["target_lang"], one["entry_count"]) for one in created.json()["dictionaries"]]
    assert described == [("en", "de", 1), ("de", "en", 2)]
    path = f"/v3/glossaries/{created.json()['glossary_id']}"
    added = {key.replace("[1]", "[0]"): value for key, value in form.items() if "[1]" in key} | {
        name.format(0, "entries"): "a\tb"
    }
    assert client.patch(path, data=added).json()["dictionaries"][1]["entry_count"] == 3
    assert client.patch(path, data={"dictionary": "x"}).status_code == 400


@pytest.mark.parametrize(
    "field", ["dictionaries.0.source_lang", "dictionaries[x].entries", "dictionaries[0]", "dictionaries[0].source_lang"]
)
def test_dictionaries_are_read_or_refused(client, field):
    assert client.post("/v3/glossaries", data={"name": "x", field: "EN"}).status_code == 400
    assert client.post("/v3/glossaries", data={"name": "x"}).json()["dictionaries"] == []  # as at DeepL: added later


def test_translations_use_glossaries(client):
    first = client.post("/v2/glossaries", json=DEVICES).json()["glossary_id"]
    other = client.post("/v2/glossaries", json=DEVICES | {"entries": "Battery\tBatterie"}).json()["glossary_id"]
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


@pytest.mark.parametrize("glossary", ["[", [["a"]], [["a", ""]], {"a": "x" * 301}, 5, [["a", "b"]] * 1_001])
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
