"""axe-core on the states of both pages that a first translation does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import PageLog, SeriousViolations
from tests.support.live import LiveServer

STATES = {
    "error": "#error:not([hidden])",
    "pivot": "#output:not(.busy) .w",
    "right to left": "#output:not(.busy):not(:empty)",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("address", ["/", "/attention"])
def test_axe_finds_nothing_serious(
    open_page: Callable[..., Any],
    live: LiveServer,
    page_log: PageLog,
    address: str,
    state: str,
    serious_violations: SeriousViolations,
) -> None:
    page = open_page(bypass_csp=True, color_scheme="light")
    if state == "error":
        page.route("**/translate", lambda route: route.fulfill(status=429, json={"error": "The server is busy."}))
    text, source, target = {
        "error": ("the cat", "en", "de"),
        "pivot": ("the cat sleeps.", "de", "fr"),
        "right to left": ("שלום עולם", "en", "de"),
    }[state]
    page.goto(f"{live.url}{address}#source={source}&target={target}&q={text}")
    page.wait_for_selector(STATES[state])
    if state == "pivot":
        shown = "#route >> text=via" if address == "/" else "#inside:not(.busy) #panel-attention canvas"
        page.wait_for_selector(shown)
    for _ in ("light", "dark"):
        assert serious_violations(page) == []
        page.click("#theme")
    assert all("429" in message for message in page_log.messages)
    page_log.messages.clear()
