"""The explorer shows the served translation, and nothing of another text."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.browser.conftest import SENTENCE, OpenPage, PageLog, translate
from tests.support.servers.live import LiveServer

MASKED = "the cat 😀 sleeps, write to anna@example.com in a house 🚆 on https://example.org/a?b=1"


@pytest.fixture
def page(open_page: OpenPage, live: LiveServer) -> Any:
    page = open_page(
        viewport={"width": 1280, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    page.goto(live.url + "/attention")
    page.wait_for_selector("#to option", state="attached")
    return page


def test_the_served_translation_is_shown_and_copied(page: Any, live: LiveServer) -> None:
    # the film of the first screen asks for its own translation
    page.wait_for_load_state("networkidle")
    with page.expect_response("**/attention?id=*") as answer:
        translate(page, MASKED)
    served = live.post("/translate", {"q": MASKED, "source": "en", "target": "de"}).json()[
        "translatedText"
    ]
    assert "😀" in served
    assert page.locator("#output").text_content() == served
    page.click("#copy")
    assert page.evaluate("navigator.clipboard.readText()") == served
    found = answer.value.json()
    for side, host in (("target", "#output"), ("source", "#mirror")):
        words = [word["text"] for word in found[side]["words"] if word["start"] < word["end"]]
        assert page.locator(f"{host} .w").all_text_contents() == words
    assert page.locator("#mirror").text_content() == MASKED + "\n"


def test_an_old_translation_cannot_be_used_under_a_new_text(page: Any, page_log: PageLog) -> None:
    translate(page, SENTENCE)
    waiting: list[Any] = []
    page.route("**/translate", lambda route: waiting.append(route))  # noqa: PLW0108  Playwright needs a function
    page.fill("#text", "a dog walks")
    assert page.evaluate(
        "['inside', 'tools', 'output'].every((id) => document.getElementById(id).inert)"
    )
    with page.expect_request("**/translate"):
        page.click("#go")
    assert page.evaluate(
        "['inside', 'tools', 'output'].every((id) => document.getElementById(id).inert)"
    )
    page.wait_for_selector("#output.busy")
    failure = pytest.importorskip("playwright.sync_api").Error
    # The pause after typing may have ended before the click; its request is aborted by that of the
    # click.
    while page.locator("#error").is_hidden():
        page.wait_for_timeout(10)
        while waiting:
            with suppress(failure):  # the request was aborted
                waiting.pop().fulfill(status=429, json={"error": "The server is busy."})
    assert page.locator("#output").text_content() == ""
    assert not page.locator("#inside").is_visible() and not page.locator("#copy").is_visible()
    page_log.expected = "429"


def test_no_map_of_another_sentence_stays_after_an_error(page: Any, page_log: PageLog) -> None:
    translate(page, "the cat walks.\na dog sleeps.")
    page.route(
        "**/attention?*",
        lambda route: route.fulfill(status=429, json={"error": "The server is busy."}),
    )
    page.click("#sentences button >> nth=1")
    page.wait_for_selector("#error:not([hidden])")
    assert (
        page.locator("#inside canvas").count() == 0 and page.locator("#film").text_content() == ""
    )
    page.unroute("**/attention?*")
    page.click("#sentences button >> nth=1")
    page.wait_for_selector("#inside:not(.busy) #panel-attention canvas")
    assert page.locator("#error").is_hidden() and page.locator("#film .target").is_visible()
    page_log.expected = "429"


def test_a_pivot_is_named_and_both_steps_are_shown(page: Any) -> None:
    page.select_option("#from", "de")
    page.select_option("#to", "fr")
    translate(page, "the cat sleeps. a dog walks.")
    assert "German → English → French" in page.inner_text("#legs")
    between, output = (
        page.locator("#between").text_content(),
        page.locator("#output").text_content(),
    )
    assert page.get_attribute("#legs [role=radio] >> nth=1", "aria-checked") == "true"
    page.hover("#between .w >> nth=0")
    assert page.locator("#output .w.linked").count() + page.locator("#between .w.on").count() >= 1
    with page.expect_response("**/attention?id=*"):
        page.click("#legs [role=radio] >> nth=0")
    page.wait_for_selector("#mirror .w")
    page.wait_for_selector("#between .w")
    assert page.locator("#output .w").count() == 0
    assert (page.locator("#between").text_content(), page.locator("#output").text_content()) == (
        between,
        output,
    )
    page.reload()
    page.wait_for_selector("#mirror .w")
    assert page.get_attribute("#legs [role=radio] >> nth=0", "aria-checked") == "true"


def test_back_and_forward_restore_the_view(page: Any) -> None:
    page.wait_for_selector("#opening svg")
    translate(page, SENTENCE)
    page.click("#tab-decoding")
    page.wait_for_selector("#panel-decoding svg .node.win")
    page.click("#tab-attention")
    page.click("role=radio[name='Encoder']")
    page.go_back()
    page.wait_for_selector("role=radio[name='Cross'][checked=true]")
    page.go_back()
    page.wait_for_selector("#tab-decoding[aria-selected=true]")
    for _ in range(2):
        page.go_back()
    page.wait_for_selector("#film .source >> text=My brother")
    assert page.input_value("#text") == page.text_content("#examples button >> nth=0") != SENTENCE
    for _ in range(4):
        page.go_forward()
    page.wait_for_selector("role=radio[name='Encoder'][checked=true]")
    assert page.input_value("#text") == SENTENCE
