"""axe-core finds nothing in the states of both pages, in both themes, on a desktop and on a
phone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import OpenPage, PageLog, Violations
from tests.support.servers.live import WORDS, LiveServer

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
TEXT = "source=en&target=de&q=the+cat+sleeps.+a+dog+walks."
MAP = "#inside:not(.busy) #panel-attention canvas"
STATES = {
    "/": [
        (DESKTOP, TEXT, ["#others"], "#alternatives button"),
        (
            PHONE,
            "source=auto&target=de&q=the+cat+sleeps+in+a+house+and+the+dog+is+here",
            ["#copy"],
            "#memory",
        ),
        (DESKTOP, "source=de&target=fr&q=the+cat+sleeps.", [], "#route >> text=via"),
        (DESKTOP, "source=en&target=de&q=שלום עולם", [], "#output:not(.busy):not(:empty)"),
    ],
    "/attention": [
        (DESKTOP, TEXT, [], MAP),
        (
            DESKTOP,
            TEXT + "&beam=4&film=1",
            ["#film .runners button:not([disabled]) >> nth=0"],
            "#film .cost p",
        ),
        (DESKTOP, "source=de&target=fr&q=the+cat+sleeps.", [], MAP),
        (DESKTOP, "source=en&target=de&q=שלום עולם", [], "#output:not(.busy):not(:empty)"),
        (PHONE, TEXT + "&asked=green+bread&tab=whynot", [], "#panel-whynot .split canvas"),
        (PHONE, TEXT + "&tab=works", [], "#works-logits .doubts"),
        (PHONE, TEXT + "&tab=decoding", [], "#panel-decoding .node"),
        (PHONE, TEXT + "&present=22", [], "#works-training:visible"),
        (PHONE, TEXT + "&tab=heads&off=cross.0.1", ["#again"], "#panel-heads .diff"),
        (
            PHONE,
            TEXT + "&view=model&beam=4",
            ["#panel-attention button >> text=Download"],
            "#picture[open]",
        ),
        (DESKTOP, TEXT + "&view=figures", [], "#panel-attention tbody"),
        (
            DESKTOP,
            f"source=en&target=de&q={'+'.join(WORDS)}&tab=decoding&trace=4",
            [],
            "#panel-decoding .node",
        ),
        (DESKTOP, TEXT + "&tab=works", ["#works-norm .figure >> nth=0"], "#dialog[open]"),
    ],
}
"""By address: the size of the window, the view, what is clicked in it, and what is waited for."""


@pytest.mark.parametrize(
    ("address", "state"),
    [(address, state) for address, states in STATES.items() for state in states],
)
def test_a_state_of_a_page(
    open_page: OpenPage, live: LiveServer, address: str, state: Any, violations: Violations
) -> None:
    size, view, clicks, shown = state
    page = open_page(viewport=size, bypass_csp=True, color_scheme="light")
    page.goto(f"{live.url}{address}#{view}")
    page.wait_for_selector("#output:not(.busy):not(:empty)", state="attached")  # slides hide it
    for button in clicks:
        page.click(button)
    page.wait_for_selector(shown)
    if (address, size) == ("/", PHONE):
        page.evaluate(
            "document.querySelectorAll('details:not([hidden])').forEach((each) => (each.open = "
            "true))"
        )
    check_themes(page, violations)


@pytest.mark.parametrize("address", STATES)
def test_an_error(
    open_page: OpenPage,
    live: LiveServer,
    page_log: PageLog,
    address: str,
    violations: Violations,
) -> None:
    page = open_page(bypass_csp=True, color_scheme="light")
    page.route(
        "**/translate",
        lambda route: route.fulfill(status=429, json={"error": "The server is busy."}),
    )
    page.goto(f"{live.url}{address}#{TEXT}")
    page.wait_for_selector("#error:not([hidden])")
    check_themes(page, violations)
    page_log.messages.clear()  # the status 429


CHOSEN = """([chosen, other]) => [chosen, other].map((selector) => {
  const { backgroundColor, outlineStyle } = getComputedStyle(document.querySelector(selector));
  return backgroundColor + outlineStyle;
})"""


def test_forced_colours_show_what_is_chosen_what_matters_and_how_much(explorer: Any) -> None:
    explorer.emulate_media(forced_colors="active")
    explorer.hover("#output .w >> nth=1")
    explorer.evaluate("document.querySelector('#chapters .head').classList.add('alive')")
    pairs = [
        (".seg [aria-checked=true]", ".seg [aria-checked=false]"),
        ("[role=tab][aria-selected=true]", "[role=tab][aria-selected=false]"),
        (".head.alive", ".head:not(.alive, [aria-pressed=true])"),
        (".doubts .track i", ".doubts .track"),
        ("#output .w.on", "#output .w:not(.on)"),
    ]
    for pair in pairs:
        chosen, other = explorer.evaluate(CHOSEN, list(pair))
        assert chosen != other, pair


OWN_COLORS = """() => [...document.querySelectorAll("body *")].some((node) =>
  node.checkVisibility() && node.textContent.trim() && getComputedStyle(node).forcedColorAdjust === "none")"""


def check_themes(page: Any, violations: Violations) -> None:
    """Checks a page in its theme, the colors of the other theme, and forced colours where the page
    sets its own."""
    assert violations(page) == []
    page.emulate_media(forced_colors="active")
    if page.evaluate(OWN_COLORS):
        assert violations(page, contrast=True) == []
    page.emulate_media(forced_colors="none")
    page.evaluate("document.getElementById('theme').click()")  # a dialog may cover it
    assert violations(page, contrast=True) == []
