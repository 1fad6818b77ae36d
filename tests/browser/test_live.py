"""The page of live translation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import OpenPage, Violations
from tests.support.servers.live import LiveServer

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


def given_out(page: Any) -> str:
    """The translation without the words that wait."""
    return str(
        page.evaluate(
            "[...document.getElementById('output').childNodes].filter(n => n.nodeType === 3).map(n "
            "=> n.data).join('')"
        )
    )


@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, {"width": 360, "height": 740}])
def test_words_go_out_while_a_sentence_is_typed(
    open_page: OpenPage, live: LiveServer, violations: Violations, size: dict[str, int]
) -> None:
    page = open_page(viewport=size, bypass_csp=True, color_scheme="light")
    page.goto(f"{live.url}/live")
    page.wait_for_selector("#to option", state="attached")
    seen = ""
    for word in ("the", "cat", "sleeps", "in", "a", "house.", "the", "dog"):
        with page.expect_response("**/live"):
            page.locator("#text").press_sequentially(word + " ")
        page.wait_for_function(
            "word => document.getElementById('source').textContent.endsWith(word)", arg=word
        )
        assert given_out(page).startswith(seen)
        seen = given_out(page)
    assert page.locator("#source .late").count() == 2 and page.locator("#decision path").count()
    for _ in range(2):
        assert violations(page) == []
        page.click("#theme")
