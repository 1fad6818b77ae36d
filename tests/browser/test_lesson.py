"""What the explorer opens with, the chapters that compute in the page, and the slides."""

from __future__ import annotations

import pypdfium2
import pytest

from tests.browser.conftest import OpenPage
from tests.support.servers.live import LiveServer

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
FITS = """() => {
  const { scrollWidth, scrollHeight } = document.documentElement;
  return scrollWidth <= innerWidth && scrollHeight <= innerHeight;
}"""
VIEW = "q=the+cat+sleeps.&source=en&target=de"


def test_the_page_opens_with_a_drawn_model_and_one_click_leads_to_the_lesson(
    open_page: OpenPage, live: LiveServer
) -> None:
    page = open_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page.goto(live.url + "/attention")
    sync_api.expect(page.locator("#opening svg")).to_contain_text("Cross-attention, 4 heads")
    sync_api.expect(page.locator("#text")).to_have_value(
        page.text_content("#examples button >> nth=0")
    )
    page.click("#opening button.primary")
    page.wait_for_selector("#tab-works[aria-selected=true]")
    page.get_by_role("radio", name="RoPE").click()
    page.reload()
    sync_api.expect(page.get_by_role("radio", name="RoPE")).to_be_checked()
    matrix = """node => Array.from(new Uint32Array(node.getContext("2d").getImageData(0, 0, 16, 16).data.buffer))"""
    pixels = page.locator("#works-shift canvas").evaluate(matrix)
    blocks = {16 * i + j for i in range(16) for j in (i, i ^ 1)}
    # 0 has the colour of the page
    assert {pixels[i] for i in range(256) if i not in blocks} == {0xFFFFFFFF}
    assert pixels[0] != 0xFFFFFFFF != pixels[255]
    page.fill("#text", "")
    sync_api.expect(page.locator("#opening")).to_be_hidden()


def test_slides_fit_the_window_and_are_moved_by_keys(open_page: OpenPage, live: LiveServer) -> None:
    page = open_page(viewport={"width": 1280, "height": 720})
    page.goto(f"{live.url}/attention?{VIEW}&present=1")
    sync_api.expect(page.locator("#works-logits li").first).to_be_attached()
    sync_api.expect(page.locator("#works-order :text('R²')")).to_be_attached()
    count = page.locator("#film, .slide").count()
    assert page.locator("#keys").is_visible()
    for number in range(1, count + 1):
        sync_api.expect(page.locator("#slide")).to_have_text(f"{number} / {count}")
        assert page.locator("#film:visible, .slide:visible").count() == 1
        page.wait_for_function(FITS)
        # the type stays large
        assert page.locator(".now").evaluate("node => Number(node.style.zoom)") > 0.8
        page.keyboard.press("ArrowRight")
    assert f"present={count}" in page.url and not page.locator("header, #keys").first.is_visible()
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.wait_for_function(FITS)
    for keys, number in (
        ("Home", 1),
        ("PageDown", 2),
        ("Space", 3),
        ("ArrowLeft", 2),
        ("1 9", 19),
        ("PageUp", 18),
        ("Home", 1),
    ):
        for key in keys.split():
            page.keyboard.press(key)
        sync_api.expect(page.locator("#slide")).to_have_text(f"{number} / {count}")
        page.wait_for_function(FITS)
    page.keyboard.press("b")
    assert not page.locator("body").is_visible()
    page.keyboard.press("b")
    page.keyboard.press("?")
    sync_api.expect(page.locator("#keys")).to_be_visible()
    printed = pypdfium2.PdfDocument(page.pdf(prefer_css_page_size=True))
    titles = ["".join(title.split()) for title in page.locator(".slide > h2").all_text_contents()]
    texts = ["".join(sheet.get_textpage().get_text_range().split()) for sheet in printed]
    places = [next(i for i, text in enumerate(texts) if title in text) for title in titles]
    assert places == sorted(set(places)) and {sheet.get_size() for sheet in printed} == {
        (1440, 810)
    }
    page.set_viewport_size({"width": 360, "height": 800})  # a phone scrolls, in one direction
    for _ in range(count):
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("header")).to_be_visible()
    assert "present" not in page.url
