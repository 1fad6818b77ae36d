"""Sharing a view of the explorer: the card, and the word in the URL."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.conftest import SENTENCE, OpenPage, PageLog, translate
from tests.support.servers.live import LiveServer


def test_the_card_shows_the_word_and_head_of_the_view(explorer: Any) -> None:
    explorer.hover("#output .w >> nth=1")
    with explorer.expect_request("**/attention?*view=card*") as asked, explorer.expect_download() as file:
        explorer.click("text=Share card")
    fields = parse_qs(urlsplit(asked.value.url).query)
    assert fields["format"] == ["png"] and fields["query"] == ["1"] and "head" not in fields
    size = struct.unpack(">II", Path(file.value.path()).read_bytes()[16:24])
    assert size == (1200, 630)


def test_files_of_a_translation_that_the_server_no_longer_keeps(explorer: Any, page_log: PageLog) -> None:
    forgotten = '{"error": "This translation is no longer kept: the server remembers 1 translation for 1 second."}'
    explorer.route("**/attention?id=*", lambda route: route.fulfill(status=410, body=forgotten))
    for button, name in (
        ("#report", "attention.html"),
        ("text=SVG", "attention.svg"),
        ("text=Share card", "attentive.png"),
    ):
        with explorer.expect_download() as file:
            explorer.click(button)
        assert file.value.suggested_filename == name
    assert explorer.locator("#error").is_hidden()
    page_log.messages.clear()  # the status 410


def test_a_link_marks_its_word(explorer: Any, open_page: OpenPage) -> None:
    explorer.hover("#output .w >> nth=1")
    marked = explorer.inner_text("#panel-attention .heat .queries .on")
    explorer.click("role=radio[name='Alignment']")
    explorer.wait_for_function("() => location.hash.includes('word=1')")
    link = explorer.url
    page = open_page()
    page.goto(link)
    page.wait_for_selector("#panel-attention .heat .queries .on")
    assert page.inner_text("#panel-attention .heat .queries .on") == marked
    assert "word=1" in page.url


def test_the_id_of_a_translation_opens_its_sentence(open_page: OpenPage, live: LiveServer) -> None:
    served = live.post("/translate", {"q": f"a dog. {SENTENCE}", "source": "en", "target": "fr"}).json()["id"]
    page = open_page()
    page.goto(f"{live.url}/attention?id={served}&sentence=1")
    page.wait_for_selector("#output:not(.busy) .w")
    assert (page.input_value("#text"), page.input_value("#to")) == (SENTENCE, "fr")
    assert "id=" not in page.url


@pytest.mark.parametrize(
    ("id", "sentence"),
    [
        ("unknown", "No translation has this id."),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "This translation is no longer kept: "),
    ],
)
def test_an_id_that_is_not_kept_is_named_and_the_page_works_on(
    open_page: OpenPage, live: LiveServer, page_log: PageLog, id: str, sentence: str
) -> None:
    page = open_page()
    page.goto(f"{live.url}/attention?id={id}")
    page.wait_for_selector(f"#error >> text={sentence}")
    assert page.inner_text("#error").count(".") == 1
    translate(page, SENTENCE)
    assert page.locator("#error").is_hidden()
    page_log.messages.clear()  # the status 404 or 410
