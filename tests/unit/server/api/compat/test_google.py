"""Google-compatible translation with the fake worker."""

from __future__ import annotations

import pytest

PATH = "/language/translate/v2"


@pytest.mark.parametrize(
    "parts",
    [
        {"json": {"q": ["Hello"], "source": "en", "target": "de", "format": "text"}},
        {"json": {"q": ["Hello"], "source": "en", "target": "de", "cid": [], "format": None, "model": None}},
        {"params": {"q": "Hello", "source": "en", "target": "de", "key": "any"}},
    ],
)
def test_translate(client, parts):
    assert client.post(PATH, **parts).json() == {"data": {"translations": [{"translatedText": "olleH"}]}}


def test_a_query_string_and_a_detected_source(client):
    answer = client.get(PATH, params={"q": ["Where is the dog?", "Wo ist der Hund?"], "target": "fr"}).json()
    assert [entry["detectedSourceLanguage"] for entry in answer["data"]["translations"]] == ["en", "de"]


def test_detect_and_languages(client):
    [[guess]] = client.post(PATH + "/detect", json={"q": "Wo ist der Hund?"}).json()["data"]["detections"]
    assert guess["language"] == "de" and 0 <= guess["confidence"] <= 1
    languages = client.get(PATH + "/languages", params={"target": "en"}).json()["data"]["languages"]
    assert {"language": "de", "name": "German"} in languages
    assert "name" not in client.get(PATH + "/languages").json()["data"]["languages"][0]


def test_errors_have_the_form_of_google(client):
    for answer in (client.post(PATH, json={"q": "x"}), client.post(PATH, json={"q": "x", "target": "xx"})):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
        assert isinstance(error["message"], str)
