"""Messages about errors on the translator's page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.web.page import interface_texts
from tests.browser.conftest import INTERFACES, SENTENCE, OpenPage, PageLog
from tests.support.servers.live import LiveServer


def test_a_message_about_a_refused_file_is_closed_or_replaced(
    page: Any, live: LiveServer, tmp_path: Path
) -> None:
    wrong, right = tmp_path / "virus.exe", tmp_path / "letter.txt"
    wrong.write_text("x")
    right.write_text(SENTENCE)
    for language in INTERFACES:
        page.select_option("#interface", language)
        page.set_input_files("#file", str(wrong))
        close = page.get_by_role(
            "button", name=f"{interface_texts()[language]['close']}: virus.exe"
        )
        close.focus()
        page.keyboard.press("Enter")
        assert page.locator("#files .bad").count() == 0 and page.locator("#files").is_hidden()
        assert page.evaluate("document.activeElement.id") == "choose"
    page.set_input_files("#file", str(wrong))
    page.set_input_files("#file", str(right))
    assert page.locator("#files .bad").count() == 0
    page.wait_for_selector("#files a >> text=letter")


@pytest.mark.parametrize(
    ("status", "kind", "seconds", "detail"),
    [
        (429, "busy", 7, False),
        (503, "starting", 5, True),
        (403, "key", 0, False),
        (400, "refused", 0, True),
    ],
)
def test_errors_of_the_server_are_in_the_language_of_the_interface(
    page: Any, page_log: PageLog, tmp_path: Path, status: int, kind: str, seconds: int, detail: bool
) -> None:
    english = "A sentence of the server."
    headers = {"Retry-After": str(seconds)} if seconds else {}

    def refuse(route: Any) -> None:
        route.fulfill(status=status, headers=headers, json={"error": english})

    for address in ("**/translate", "**/translate_file"):
        page.route(address, refuse)
    page.on("dialog", lambda dialog: dialog.dismiss())
    (tmp_path / "letter.txt").write_text(SENTENCE)
    page.fill("#text", SENTENCE)
    for language in INTERFACES:
        page.select_option("#interface", language)  # what is shown already changes its language
        texts = interface_texts()[language]
        said = texts[kind] + (" " + texts["wait"].replace("{0}", str(seconds)) if seconds else "")
        page.set_input_files("#file", str(tmp_path / "letter.txt"))
        spoken = f"{said} {english}" if detail else said
        failed = texts["failed"].replace("{0}", "letter.txt").replace("{1}", spoken)
        for place, whole in (("#error", spoken), ("#files .bad", failed)):
            page.wait_for_selector(f"{place}:has-text('{said}')")
            assert page.text_content(place) == whole
    assert all(str(status) in message for message in page_log.messages)
    page_log.messages.clear()


@pytest.mark.parametrize("address", ["/", "/attention"])
def test_a_text_is_tried_again_where_the_cause_may_pass(
    open_page: OpenPage, live: LiveServer, page_log: PageLog, address: str
) -> None:
    page = open_page()
    page.goto(f"{live.url}{address}#source=en&target=de")
    page.wait_for_selector("#to option", state="attached")
    page.clock.install()
    status = 0

    def fail(route: Any) -> None:
        if status:
            route.fulfill(status=status, json={"error": "A sentence of the server."})
        else:
            route.abort()

    for status, again in ((503, True), (429, True), (0, True), (400, False)):
        page.route("**/translate", fail)
        page.fill("#text", f"{SENTENCE} {status}")
        page.wait_for_selector("#error:not([hidden])")
        page.unroute("**/translate")
        page.clock.fast_forward(60_000)
        if not again:
            assert page.locator("#error").is_visible()
            page.press("#text", "Control+Enter")
        page.wait_for_selector("#output:not(.busy) .w")
        assert page.locator("#error").is_hidden()
    page_log.messages.clear()
