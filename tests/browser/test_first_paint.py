"""The pages are painted from their HTML alone, whole and in the reader's language and theme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import SENTENCE, OpenPage
from tests.support.servers.live import LiveServer

PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"


@pytest.mark.parametrize("path", ["/", "/attention"])
def test_a_page_is_painted_before_any_file_arrives(
    open_page: OpenPage, live: LiveServer, path: str
) -> None:
    page = open_page(viewport={"width": 1280, "height": 900}, color_scheme="dark", locale="de-DE")
    release = hold_files(page)
    page.goto(live.url + path, wait_until="commit")
    page.wait_for_function(PAINTED)
    assert page.locator("#text").is_visible() and page.locator("footer").is_visible()
    assert page.get_attribute("html", "data-theme") == "dark"
    if path == "/":
        assert (
            page.get_attribute("html", "lang") == "de"
            and page.inner_text("#choose") == "Datei übersetzen"
        )
        assert (
            page.input_value("#interface") == "de"
            and page.evaluate("document.activeElement.id") == "text"
        )
    before = layout(page)
    # the first example of the explorer is not drawn yet
    page.route("**/translate", lambda route: None)
    release()
    page.wait_for_selector("#to option", state="attached")
    assert layout(page) == before


def hold_files(page: Any) -> Callable[[], None]:
    """Holds the requests for files until the returned function is called."""
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    def release() -> None:
        page.route("**/static/**", lambda route: route.continue_())  # for those to come
        for route in held:
            route.continue_()

    page.route("**/static/**", hold)
    return release


def layout(page: Any) -> list[Any]:
    """Returns places of the parts of the page."""
    boxes: list[Any] = page.eval_on_selector_all(
        "header, nav a, main, .pane, .bar, #text, #output, details:not([hidden]) summary, footer",
        "nodes => nodes.map((node) => [node.id, "
        "...Object.values(node.getBoundingClientRect().toJSON())])",
    )
    return boxes


def test_what_is_chosen_before_the_explorer_is_ready_is_used(
    open_page: OpenPage, live: LiveServer
) -> None:
    page = open_page()
    release = hold_files(page)
    page.goto(live.url + "/attention", wait_until="commit")
    page.select_option("#beam", "4")
    page.fill("#text", SENTENCE)
    page.click("#go")
    release()
    page.wait_for_selector("#output:not(.busy) .w")
    assert (page.input_value("#text"), page.input_value("#beam")) == (
        SENTENCE,
        "4",
    ) and "beam=4" in page.url
