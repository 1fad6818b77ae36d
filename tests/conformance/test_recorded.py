"""Requests as Weblate, Mastodon, Discourse and Linguist send them, and the fields of the answers
that they read."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import httpx
import pytest

from tests.support.servers.live import LiveServer

TEXTS = ["The dog sleeps in the old house.", "Where is the station?"]


@pytest.fixture
def http(server: LiveServer):
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def test_weblate(http):
    languages = http.get("/languages").json()
    assert all({"code", "targets"} <= set(language) for language in languages)
    body = {"api_key": "", "q": TEXTS, "source": "en", "target": "de"}
    answer = http.post(
        "/translate", json=body, headers={"User-Agent": "Weblate/5.8", "Accept": "application/json"}
    )
    translated = answer.json()["translatedText"]
    assert [type(text) for text in translated] == [str, str]


def test_weblate_with_deepl(http):
    key = {"Authorization": "DeepL-Auth-Key some-key"}
    for kind in ("source", "target"):
        languages = http.get("/v2/languages", params={"type": kind}, headers=key).json()
        fields = {"language", "name"} | ({"supports_formality"} if kind == "target" else set())
        assert all(fields <= set(language) for language in languages)
    pairs = http.get("/v2/glossary-language-pairs", headers=key).json()["supported_languages"]
    assert {"source_lang": "en", "target_lang": "de"} in pairs
    marked = 'The <x id="4"></x> sleeps in the house.'
    body = {
        "text": [marked],
        "source_lang": "EN",
        "target_lang": "DE",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
        "context": "",
    }
    [translation] = http.post("/v2/translate", json=body, headers=key).json()["translations"]
    assert translation["text"].count('<x id="4"></x>') == 1
    assert translation["detected_source_language"] == "EN"


def test_mastodon(http):
    assert all(isinstance(language["targets"], list) for language in http.get("/languages").json())
    posts = [f"<p>{text}</p>" for text in TEXTS]
    body = {"q": posts, "source": "auto", "target": "de", "format": "html", "api_key": None}
    answer = http.post("/translate", json=body).json()
    assert all(
        text.startswith("<p>") and text.endswith("</p>") for text in answer["translatedText"]
    )
    assert [guess["language"] for guess in answer["detectedLanguage"]] == ["en", "en"]
    assert all(isinstance(guess["confidence"], int) for guess in answer["detectedLanguage"])


def test_discourse(http):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    text = "<p>The dog sleeps in the old house.</p>"
    found = http.post(
        "/detect", content=urlencode({"q": text, "api_key": ""}), headers=headers
    ).json()
    assert found[0]["language"] == "en"
    fields = {
        "q": text,
        "source": found[0]["language"],
        "target": "de",
        "format": "html",
        "api_key": "",
    }
    assert http.post(
        "/translate", content=urlencode(fields, quote_via=quote), headers=headers
    ).json()["translatedText"]
    assert (
        http.post(
            "/translate", content=urlencode(fields | {"target": "iw"}), headers=headers
        ).status_code
        == 400
    )
