"""Google-compatible translation with the fake worker."""

from __future__ import annotations

import pytest

PATH = "/language/translate/v2"


@pytest.mark.parametrize(
    "parts",
    [
        {"json": {"q": ["Hello"], "source": "en", "target": "de", "format": "text"}},
        {
            "json": {
                "q": ["Hello"],
                "source": "en",
                "target": "de",
                "cid": [],
                "format": None,
                "model": None,
            }
        },
        {"params": {"q": "Hello", "source": "en", "target": "de", "key": "any"}},
    ],
)
def test_translate(client, parts):
    assert client.post(PATH, **parts).json() == {
        "data": {"translations": [{"translatedText": "olleH"}]}
    }


def test_a_query_string_and_a_detected_source(client):
    answer = client.get(
        PATH, params={"q": ["Where is the dog?", "Wo ist der Hund?"], "target": "fr"}
    ).json()
    assert [entry["detectedSourceLanguage"] for entry in answer["data"]["translations"]] == [
        "en",
        "de",
    ]


def test_detect_and_languages(client):
    [[guess]] = client.post(PATH + "/detect", json={"q": "Wo ist der Hund?"}).json()["data"][
        "detections"
    ]
    assert guess["language"] == "de" and 0 <= guess["confidence"] <= 1
    languages = client.get(PATH + "/languages", params={"target": "en"}).json()["data"]["languages"]
    assert {"language": "de", "name": "German"} in languages
    assert "name" not in client.get(PATH + "/languages").json()["data"]["languages"][0]


def test_errors_have_the_form_of_google(client):
    for answer in (
        client.post(PATH, json={"q": "x"}),
        client.post(PATH, json={"q": "x", "target": "xx"}),
    ):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["status"]) == (
            400,
            400,
            "INVALID_ARGUMENT",
        )
        assert isinstance(error["message"], str)


IMMERSIVE = {"text_list": ["Hello"], "source_lang": "en", "target_lang": "de"}
KISS = {"text": "Hello", "from": "en", "to": "de"}
HCFY = {"name": "Attentive", "text": "Hello", "destination": ["德语", "英语"], "source": "英语"}
DEEPLX = {"text": "Hello", "source_lang": "EN", "target_lang": "DE"}
REQUESTS = {"/imme": IMMERSIVE, "/kiss": KISS, "/hcfy": HCFY, "/deeplx/translate": DEEPLX}
ENGLISH, GERMAN = "Where is the dog?", "Wo ist der Hund?"
DATA = {"code": 200, "alternatives": [], "source_lang": "EN", "target_lang": "DE", "method": "Free"}
PAIR = {"detected_source_lang": "en", "text": "olleH"}


@pytest.mark.parametrize(
    ("path", "changes", "expected"),
    [
        ("/imme", {}, {"translations": [PAIR]}),
        (
            "/imme",
            {"text_list": ["Hello", "", "Hello"]},
            {"translations": [PAIR, PAIR | {"text": ""}, PAIR]},
        ),
        (
            "/imme",
            {"text_list": ["{0}", "@0#"]},
            {"translations": [PAIR | {"text": mark} for mark in ("{0}", "@0#")]},
        ),
        (
            "/imme",
            {"text_list": [ENGLISH, GERMAN], "source_lang": "auto", "target_lang": "fr"},
            {
                "translations": [
                    PAIR | {"text": ENGLISH[::-1]},
                    {"detected_source_lang": "de", "text": GERMAN},
                ]
            },  # by way of en
        ),
        ("/kiss", {}, {"text": "olleH", "src": "en"}),
        (
            "/kiss",
            {"text": GERMAN, "from": "auto", "to": "en"},
            {"text": GERMAN[::-1], "src": "de"},
        ),
        ("/kiss", {"text": None, "texts": ["Hello"]}, [{"text": "olleH", "src": "en"}]),
        ("/hcfy", {}, {"text": "Hello", "from": "英语", "to": "德语", "result": ["olleH"]}),
        (
            "/hcfy",
            {"text": ENGLISH, "source": None},
            {"text": ENGLISH, "from": "英语", "to": "德语", "result": [ENGLISH[::-1]]},
        ),
        (  # the text is in the first of the languages
            "/hcfy",
            {"text": f"{GERMAN}\n\n{GERMAN}", "source": ""},
            {
                "text": f"{GERMAN}\n\n{GERMAN}",
                "from": "德语",
                "to": "英语",
                "result": [GERMAN[::-1], "", GERMAN[::-1]],
            },
        ),
        ("/deeplx/translate", {}, DATA | {"data": "olleH"}),
        (
            "/deeplx/translate",
            {"text": "<b0>Hello</b0>", "tag_handling": "html"},
            DATA | {"data": "<b0>olleH</b0>"},
        ),
        (
            "/deeplx/translate",
            {"text": GERMAN, "source_lang": "auto", "target_lang": "EN"},
            DATA | {"data": GERMAN[::-1], "source_lang": "DE", "target_lang": "EN"},
        ),
    ],
)
def test_the_answer_has_the_form_that_the_extension_reads(client, path, changes, expected):
    empty = {"Authorization": "Bearer "}  # KISS without a key
    answer = client.post(path, json=REQUESTS[path] | changes, headers=empty)
    body = answer.json()
    assert path != "/deeplx/translate" or isinstance(body.pop("id"), int)
    assert (answer.status_code, body) == (200, expected)


@pytest.mark.parametrize("path", REQUESTS)
def test_an_error_is_a_sentence_where_the_extension_looks_for_it(client, path):
    text = "text_list" if path == "/imme" else "text"
    target = {"/kiss": "to", "/hcfy": "destination"}.get(path, "target_lang")
    for changes, words in (({target: "xx"}, "xx is not"), ({text: ""}, "missing text")):
        answer = client.post(path, json=REQUESTS[path] | changes)
        assert answer.status_code == 400
        message = (
            answer.json()["error"] if path != "/deeplx/translate" else answer.json()["message"]
        )
        assert words in message and answer.json().get("code", 400) == 400


@pytest.mark.parametrize("path", REQUESTS)
def test_a_key_is_in_the_address_or_in_the_header(serve, keys, path):
    secret, _ = keys.create("Ann", requests_per_minute=2)
    client = serve(data=keys.folder, key_required=True)
    address, header = (
        {"params": {"token": secret}},
        {"headers": {"Authorization": f"Bearer {secret}"}},
    )
    answers = [
        client.post(path, json=REQUESTS[path], **way) for way in ({}, address, header, address)
    ]
    assert [answer.status_code for answer in answers] == [403, 200, 200, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1
