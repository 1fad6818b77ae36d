"""What the explorer opens with, the chapters that compute in the page, and the slides."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import OpenPage
from tests.support.servers.live import LiveServer

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
VIEW = "q=the+cat+sleeps.&source=en&target=de"


def test_the_page_opens_with_a_drawn_model_and_one_click_leads_to_the_lesson(
    open_page: OpenPage, live: LiveServer
) -> None:
    page = open_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page.goto(live.url + "/attention")
    sync_api.expect(page.locator("#opening svg")).to_contain_text("Cross-attention, 4 heads")
    sync_api.expect(page.locator("#text")).to_have_value(page.text_content("#examples button >> nth=0"))
    page.click("#opening button.primary")
    page.wait_for_selector("#tab-works[aria-selected=true]")
    page.get_by_role("radio", name="RoPE").click()
    page.reload()
    sync_api.expect(page.get_by_role("radio", name="RoPE")).to_be_checked()
    matrix = """node => Array.from(new Uint32Array(node.getContext("2d").getImageData(0, 0, 16, 16).data.buffer))"""
    pixels = page.locator("#works-shift canvas").evaluate(matrix)
    blocks = {16 * i + j for i in range(16) for j in (i, i ^ 1)}
    assert {pixels[i] for i in range(256) if i not in blocks} == {0xFFFFFFFF}  # 0 has the colour of the page
    assert pixels[0] != 0xFFFFFFFF != pixels[255]
    page.fill("#text", "")
    sync_api.expect(page.locator("#opening")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 360])
def test_slides_are_moved_by_keys(open_page: OpenPage, live: LiveServer, width: int) -> None:
    page = open_page(viewport={"width": width, "height": 800})
    page.goto(f"{live.url}/attention?{VIEW}&present=1")
    sync_api.expect(page.locator("#slide")).to_have_text(re.compile(r"1 / \d+"))
    count = page.locator("#film, .slide").count()
    for keys, number in (
        ("ArrowRight", 2),
        ("PageDown", 3),
        ("ArrowLeft", 2),
        ("1 9", 19),
        ("ArrowRight", 20),
        ("End", count),
    ):
        for key in keys.split():
            page.keyboard.press(key)
        sync_api.expect(page.locator("#slide")).to_have_text(f"{number} / {count}")
        assert page.locator("#film:visible, .slide:visible").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width > 900:  # a phone scrolls
            page.wait_for_function("document.documentElement.scrollHeight <= innerHeight")
            assert page.locator(".now").evaluate("node => Number(node.style.zoom)") > 0.7  # the type stays large
    assert f"present={count}" in page.url and not page.locator("header").is_visible()
    page.keyboard.press("?")
    sync_api.expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("header")).to_be_visible()
    assert "present" not in page.url
