"""The client libraries from PyPI return the answers of a live server unchanged."""

from __future__ import annotations

import time
import urllib.error

import deepl
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException
from deepl.api_data import MultilingualGlossaryDictionaryEntries
from libretranslatepy import LibreTranslateAPI

from tests.support.servers.keys import KeyFile
from tests.support.servers.live import LiveServer, live_server

# The libraries leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

TEXT = "The dog sleeps in the old house."
TEXTS = [TEXT, "Where is the station? The train is green.", "the cat walks on the bread & water"]


def said(server: LiveServer, text: str, **options) -> str:
    """Returns the translation of the server without a client library."""
    answer = server.post("/translate", {"q": text, "source": "en", "target": "de"} | options)
    assert answer.status == 200, answer.body
    translated = answer.json()["translatedText"]
    assert translated
    return translated


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A DeepL translator without retries, with a long timeout for a busy machine."""
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    monkeypatch.setattr(deepl.http_client, "min_connection_timeout", 60.0)


@pytest.fixture
def translator(server: LiveServer) -> deepl.Translator:
    return deepl.Translator("any key", server_url=server.url)


def test_libretranslatepy(server):
    api = LibreTranslateAPI(server.url)
    assert [api.translate(text, "en", "de") for text in TEXTS] == [
        said(server, text) for text in TEXTS
    ]
    assert isinstance(api.detect(TEXT)[0]["confidence"], int)
    assert {"code": "en", "name": "English"}.items() <= next(
        x for x in api.languages() if x["code"] == "en"
    ).items()


def test_deep_translator(server):
    client = LibreTranslator(
        source="en", target="de", custom_url=server.url + "/", api_key="any key"
    )
    assert client.translate(TEXT) == said(server, TEXT)
    assert client.translate_batch(TEXTS) == [said(server, text) for text in TEXTS]


def test_deepl_texts(server, translator):
    result = translator.translate_text(TEXT, source_lang="EN", target_lang="DE")
    assert result.text == said(server, TEXT)
    assert (result.detected_source_lang, result.billed_characters) == ("EN", len(TEXT))
    results = translator.translate_text(TEXTS, source_lang="en", target_lang="de", context="x")
    assert [result.text for result in results] == [said(server, text) for text in TEXTS]
    polite = translator.translate_text(
        TEXTS, source_lang="en", target_lang="de", formality="prefer_more"
    )
    assert len(polite) == len(TEXTS) and all(result.text for result in polite)


def test_deepl_options(server, translator):
    lines = "The dog sleeps\nin the old house."
    one = translator.translate_text(lines, source_lang="EN", target_lang="DE", split_sentences="0")
    other = translator.translate_text(
        lines,
        source_lang="EN",
        target_lang="DE",
        split_sentences="nonewlines",
        preserve_formatting=True,
    )
    assert one.text == other.text == said(server, lines.replace("\n", " "))
    marked = 'The <x id="7">dog &amp; cat</x> sleeps <b>in the house</b>.'
    xml = translator.translate_text(
        marked, source_lang="EN", target_lang="DE", tag_handling="xml", ignore_tags=["x"]
    )
    assert '<x id="7">dog &amp; cat</x>' in xml.text
    assert xml.text.count("<b>") == xml.text.count("</b>") == 1
    page = translator.translate_text(
        f"<p>{TEXT}</p>", source_lang="EN", target_lang="DE", tag_handling="html"
    )
    assert page.text == said(server, f"<p>{TEXT}</p>", format="html")


def test_deepl_languages_and_usage(translator):
    sources = {language.code: language.name for language in translator.get_source_languages()}
    assert sources["EN"] == "English"
    targets = {language.code for language in translator.get_target_languages()}
    assert "DE" in targets
    assert not targets & {"EN", "PT"}
    assert not translator.get_usage().any_limit_reached
    assert translator.get_glossary_languages()
    assert translator.list_glossaries() == []


def test_deepl_errors(translator):
    with pytest.raises(deepl.DeepLException, match="XX' is not supported"):
        translator.translate_text(TEXT, target_lang="XX")
    with pytest.raises(deepl.DeepLException, match="glossar"):
        translator.translate_text(
            TEXT, source_lang="EN", target_lang="DE", glossary="no-such-glossary"
        )


def test_deepl_files(server, translator, tmp_path):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text(TEXT + "\n")
    with source.open("rb") as file:
        handle = translator.translate_document_upload(file, source_lang="EN", target_lang="DE")
    while not (status := translator.translate_document_get_status(handle)).done:
        assert status.ok, status.error_message
        time.sleep(0.1)
    assert status.billed_characters == len(TEXT)
    with target.open("wb") as file:
        translator.translate_document_download(handle, file)
    assert target.read_bytes().decode() == said(server, TEXT) + "\n"


def test_key_and_limit_errors_reach_every_client(tiny_weights, tmp_path):
    keys = KeyFile(tmp_path / "data")
    good, _ = keys.create("good", requests_per_minute=0)
    slow, _ = keys.create("slow", requests_per_minute=1)
    arguments = ("--data", str(tmp_path / "data"), "--key-required", "true")
    with live_server(tiny_weights, tmp_path / "log", arguments) as server:
        assert LibreTranslateAPI(server.url, api_key=good).translate(TEXT, "en", "de")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            LibreTranslateAPI(server.url, api_key="bad").translate(TEXT, "en", "de")
        assert LibreTranslator(
            source="en", target="de", custom_url=server.url + "/", api_key=good
        ).translate(TEXT)
        with pytest.raises(AuthorizationException):
            LibreTranslator(
                source="en", target="de", custom_url=server.url + "/", api_key="bad"
            ).translate(TEXT)
        assert (
            deepl.Translator(good, server_url=server.url)
            .translate_text(TEXT, target_lang="DE")
            .text
        )
        with pytest.raises(deepl.AuthorizationException):
            deepl.Translator("bad", server_url=server.url).translate_text(TEXT, target_lang="DE")
        assert (
            deepl.Translator(slow, server_url=server.url)
            .translate_text(TEXT, target_lang="DE")
            .text
        )
        with pytest.raises(deepl.TooManyRequestsException):
            deepl.Translator(slow, server_url=server.url).translate_text(TEXT, target_lang="DE")
        keys.revoke(next(key.id for key in keys.all() if key.name == "good"))
        with pytest.raises(deepl.AuthorizationException):
            for _ in range(600):  # the server reads the keys twice a second
                deepl.Translator(good, server_url=server.url).get_usage()
                time.sleep(0.1)


def test_the_deepl_library_with_glossaries(server, translator):
    text = "The dog sleeps in the old house."
    pairs = translator.get_glossary_languages()
    assert ("en", "de") in {(pair.source_lang, pair.target_lang) for pair in pairs}
    one = translator.create_glossary("Dogs", "EN", "DE", {"dog": "Wauwau"})
    assert (one.name, one.ready, one.entry_count, one.source_lang, one.target_lang) == (
        "Dogs",
        True,
        1,
        "EN",
        "DE",
    )
    assert translator.get_glossary_entries(one) == {"dog": "Wauwau"}
    assert translator.get_glossary(one.glossary_id).creation_time == one.creation_time
    assert one.glossary_id in {found.glossary_id for found in translator.list_glossaries()}
    found = translator.translate_text(text, source_lang="EN", target_lang="DE", glossary=one)
    assert "Wauwau" in found.text
    plain = translator.translate_text("It is green.", source_lang="EN", target_lang="DE")
    assert translator.translate_text_with_glossary("It is green.", one).text == plain.text
    csv = translator.create_glossary_from_csv("Houses", "EN", "DE", "house,Bude\n")
    both = translator.translate_text(
        text, source_lang="EN", target_lang="DE", glossary_ids=[one.glossary_id, csv.glossary_id]
    )
    assert "Wauwau" in both.text and "Bude" in both.text
    for glossary in (one, csv):
        translator.delete_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        translator.get_glossary(one.glossary_id)


def test_the_deepl_library_with_multilingual_glossaries(server):
    client = deepl.DeepLClient("any key", server_url=server.url)
    entries = MultilingualGlossaryDictionaryEntries
    made = client.create_multilingual_glossary(
        "Dogs", [entries("EN", "DE", {"dog": "Wauwau"}), entries("EN", "FR", {"dog": "toutou"})]
    )
    assert [(one.source_lang, one.target_lang) for one in made.dictionaries] == [
        ("EN", "DE"),
        ("EN", "FR"),
    ]
    changed = client.update_multilingual_glossary_dictionary(
        made, entries("EN", "DE", {"house": "Bude"})
    )
    assert [one.entry_count for one in changed.dictionaries] == [2, 1]
    [found] = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries
    assert (found.source_lang, found.target_lang) == ("en", "de")
    replaced = client.replace_multilingual_glossary_dictionary(
        made, entries("EN", "DE", {"dog": "Wuffi"})
    )
    assert replaced.entry_count == 1
    assert client.update_multilingual_glossary_name(made, "Animals").name == "Animals"
    assert made.glossary_id in {one.glossary_id for one in client.list_multilingual_glossaries()}
    made = client.get_multilingual_glossary(made.glossary_id)
    text = client.translate_text(
        "The dog is here.", source_lang="EN", target_lang="DE", glossary=made.glossary_id
    ).text
    assert "Wuffi" in text
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="FR")
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(made.glossary_id)
