"""With the model that comes with the server: the explorer opens with its film, nothing jumps, and
little is transferred; the translator offers other words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import OpenPage
from tests.support.servers.live import LiveServer

SIZES = [(1280, 800), (1920, 1080), (768, 1024), (390, 844)]
MAP = "#inside:not(.busy) #panel-attention canvas"
SHIFTS = """window.shifts = 0;
new PerformanceObserver((list) => list.getEntries().forEach((entry) => (window.shifts += entry.value)))
  .observe({ type: "layout-shift", buffered: true });"""
MOST_SHIFT, MOST_BYTES = 0.05, 150_000
WRITTEN = "nodes => nodes.filter((node) => node.style.opacity === '1').length"


@pytest.fixture
def live(shipped: LiveServer) -> LiveServer:
    """A server with the model that comes with it: what is transferred and how long texts are
    depends on the model."""
    return shipped


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_first_view_is_the_film_and_nothing_jumps(
    open_page: OpenPage, live: LiveServer, size: tuple[int, int]
) -> None:
    page = open_page(viewport={"width": size[0], "height": size[1]})
    page.add_init_script(SHIFTS)
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    received: list[int] = []
    network.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    page.goto(live.url + "/attention")
    page.wait_for_selector("#film .target .fw")
    page.wait_for_selector("#opening svg")
    page.wait_for_selector(MAP)
    assert page.evaluate("window.shifts") < MOST_SHIFT
    box = page.locator("#film .stage").bounding_box()
    assert 0 < box["y"] < 120 and box["y"] + box["height"] < size[1]
    assert 20_000 < sum(received) < MOST_BYTES


def test_the_film_waits_with_its_first_frame_until_it_is_seen_and_is_dragged(
    open_page: OpenPage, live: LiveServer
) -> None:
    page = open_page(viewport={"width": 1280, "height": 60}, reduced_motion="no-preference")
    page.goto(live.url + "/attention")
    page.wait_for_selector(MAP)
    words = page.locator("#film .target .fw")
    assert words.evaluate_all(WRITTEN) == 0
    assert page.inner_text("#film .play") == "Play"
    page.set_viewport_size({"width": 1280, "height": 800})
    page.wait_for_selector("#film .play >> text=Pause")
    page.wait_for_selector("#film .play >> text=Play again")
    assert words.evaluate_all(WRITTEN) == words.count()
    box: dict[str, Any] = page.locator("#film .stage").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.8 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.1, middle, steps=4)
    page.mouse.up()
    assert words.evaluate_all(WRITTEN) == 0


def test_another_word_is_chosen_by_a_click_and_is_part_of_the_link(
    open_page: OpenPage, live: LiveServer
) -> None:
    page = open_page(locale="en-US")
    page.goto(f"{live.url}/#source=en&target=de&q=The+cat+eats+the+fish.")
    page.wait_for_selector("#output:not(.busy) .w")
    before = page.locator("#output").text_content()
    page.click("#output .w >> nth=2")
    first = page.locator("#alternatives button >> nth=0")
    wanted = first.evaluate("node => node.firstChild.data")
    first.click()
    shown = "text => document.getElementById('output').textContent === text"
    page.wait_for_function(shown, arg=wanted)
    page.wait_for_function("() => location.hash.includes('fork=0+')")
    assert wanted != before and wanted.split()[:2] == before.split()[:2]
    link = open_page(locale="en-US")
    link.goto(page.url)
    link.wait_for_function(shown, arg=wanted)
    link.click("#inside")  # the explorer shows the chosen words too
    link.wait_for_function(
        "text => document.querySelector('#film .target')?.textContent === text", arg=wanted
    )
    page.fill("#text", "The dog sleeps.")
    page.wait_for_function("() => !location.hash.includes('fork')")
