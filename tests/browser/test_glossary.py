"""The glossary of the translator at / in a browser."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import SENTENCE, OpenPage
from tests.support.servers.live import LiveServer


@pytest.fixture
def page(open_page: OpenPage, live: LiveServer) -> Any:
    page = open_page(viewport={"width": 1280, "height": 900}, locale="en-US")
    page.goto(f"{live.url}/#source=en&target=de")
    page.wait_for_selector("#to option", state="attached")
    page.click("#glossary summary")
    return page


def wait_for_term(page: Any, term: str) -> None:
    page.wait_for_function(
        "term => document.getElementById('output').textContent.includes(term)", arg=term
    )


def wait_without_term(page: Any, term: str) -> None:
    page.wait_for_function(
        "term => { const text = document.getElementById('output').textContent; return text && "
        "!text.includes(term); }",
        arg=term,
    )


def test_own_terms_are_used_and_kept_for_each_pair_of_languages(page: Any) -> None:
    page.select_option("#terms", "own")
    page.fill(
        "#pairs", f"cat = Schnurrer\n\nunfinished\nhouse\tHütte\ncat = Maus\n= a\n{'x' * 301} = b"
    )
    page.fill("#text", SENTENCE)
    wait_for_term(page, "Schnurrer")
    wait_for_term(page, "Hütte")
    unused = page.inner_text("#unused")
    assert [
        part in unused for part in ("Line 3", "“unfinished”", "Line 5", "“cat = Maus”", "Line 6")
    ] == [True] * 5
    assert "Line 1" not in unused and "Line 4" not in unused and len(unused) < 300
    page.reload()
    wait_for_term(page, "Schnurrer")
    page.select_option("#to", "fr")
    wait_without_term(page, "Schnurrer")
    page.select_option("#to", "de")
    wait_for_term(page, "Schnurrer")
    page.click("#inside")  # the explorer translates with the same terms
    page.wait_for_selector("#inside:not(.busy) #panel-attention canvas")
    assert "Schnurrer" in page.inner_text("#output") and "glossary" in page.inner_text("#facts")
    page.go_back()
    wait_for_term(page, "Schnurrer")
    page.click("#glossary summary")
    page.select_option("#terms", "")
    wait_without_term(page, "Schnurrer")


@pytest.fixture
def glossaries(live: LiveServer) -> Iterator[None]:
    """Glossaries of two pairs of languages on the server."""
    made = []
    for name, target in (("Cats", "de"), ("Chats", "fr")):
        body = {
            "name": name,
            "source_lang": "en",
            "target_lang": target,
            "entries": "cat\tSchnurrer",
        }
        made.append(live.post("/v2/glossaries", body).json()["glossary_id"])
    yield
    for id in made:
        live.ask(urllib.request.Request(f"{live.url}/v2/glossaries/{id}", method="DELETE"))


def test_a_glossary_of_the_server_is_chosen(page: Any, glossaries: None) -> None:
    page.reload()
    page.wait_for_selector("#to option", state="attached")
    page.click("#glossary summary")
    page.wait_for_selector("#terms option:text-is('Cats')", state="attached")
    assert page.locator("#terms option:text-is('Chats')").count() == 0
    page.select_option("#terms", label="Cats")
    page.fill("#text", SENTENCE)
    wait_for_term(page, "Schnurrer")
    page.set_input_files(
        "#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": SENTENCE.encode()}
    )
    with page.expect_download() as download:
        page.click("#files a")
    assert "Schnurrer" in download.value.path().read_text(encoding="utf-8")
