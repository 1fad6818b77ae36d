"""What the explorer opens with, the path of one word through the model, whose numbers lead to their
requests, the chapters about the paper, and the slides."""

from __future__ import annotations

import re
from typing import Any

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
CLOSE = 0.002
"""Numbers have three digits."""


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


@pytest.fixture
def chapters(explorer: Any) -> Any:
    explorer.click("#tab-works")
    explorer.wait_for_selector("#works-order :text('R²')")
    explorer.wait_for_selector("#works-logits .doubts li")
    return explorer


def test_without_positions_the_order_changes_nothing(chapters: Any) -> None:
    assert re.search(r"change by up to \d\S*\s%", chapters.inner_text("#works-order"))
    chapters.get_by_role("radio", name="positions off").click()
    assert re.search(r"change by <0.1\s%", chapters.inner_text("#works-order"))
    assert "a bag of words" in chapters.inner_text("#panel-works")
    assert "R² of a piece's place" in chapters.inner_text("#works-order")


def test_the_figures_of_the_paper_are_drawn_with_their_commands(chapters: Any) -> None:
    chapters.get_by_role("button", name="Draw the figures").click()
    sync_api.expect(chapters.locator("#works-figures img.figure[src^=blob]")).to_have_count(3)
    for picture in chapters.locator("#works-figures img.figure").all():
        sync_api.expect(picture).not_to_have_js_property("naturalWidth", 0)
    commands = chapters.locator("#panel-works .card > pre").all_inner_texts()
    assert [re.search(r"-o (figure\d)\.svg$", command)[1] for command in commands] == [
        "figure3",
        "figure4",
        "figure5",
    ]
    for command in commands:
        address = re.search(r"curl '(\S+)'", command)[1]
        answer = chapters.request.get(address)
        assert answer.status == 200 and answer.headers["content-type"] == "image/svg+xml"


def test_back_forward_and_reload_reproduce_what_is_chosen_in_the_chapters(chapters: Any) -> None:
    def shows(positions: str, figures: int) -> None:
        radio = chapters.get_by_role("radio", name=positions, exact=True)
        sync_api.expect(radio).to_have_attribute("aria-checked", "true")
        sync_api.expect(chapters.locator("#works-figures img.figure")).to_have_count(figures)

    chapters.get_by_role("radio", name="positions off").click()
    chapters.get_by_role("button", name="Draw the figures").click()
    shows("positions off", 3)
    chapters.go_back()
    shows("positions off", 0)
    chapters.go_back()
    shows("positions on", 0)
    for _ in range(2):
        chapters.go_forward()
    shows("positions off", 3)
    chapters.reload()
    shows("positions off", 3)


def test_the_figures_are_drawn_with_a_teaching_model_that_is_got_by_its_name(chapters: Any) -> None:
    teacher, got = "Helsinki-NLP/opus-mt-en-de", []

    def add(route: Any) -> None:
        got.append(route.request.post_data_json["name"])
        route.fulfill(status=202, json={})

    def languages(route: Any) -> None:
        answer = route.fetch()
        found = answer.json()
        for language in found:
            if language["code"] == "en":
                language["models"]["fr"] = teacher
        route.fulfill(response=answer, json=found)

    chapters.route("**/admin/models", add)
    chapters.route("**/languages", languages)
    with chapters.expect_request("**/attention?*making*") as asked:
        chapters.get_by_role("button", name=f"Get {teacher}").click()
    assert got == [teacher] and "target=fr" in asked.value.url
    sync_api.expect(chapters.locator("#works-figures img.figure[src^=blob]")).to_have_count(3)
    chapters.route(
        "**/frontend/settings",
        lambda route: route.fulfill(json={**route.fetch().json(), "manageModels": False}),
    )
    chapters.unroute("**/languages")
    chapters.reload()
    sync_api.expect(chapters.locator("#works-figures code")).to_have_text(
        f"attentive pull {teacher}"
    )


def number(text: str) -> float:
    return float(text.replace("−", "-").removesuffix("\u00a0%").replace("<", ""))


def request_of(page: Any, button: Any) -> tuple[str, dict[str, Any]]:
    """Returns the name of the tensor behind a button, and the answer of the request that its dialog
    shows."""
    button.click()
    page.wait_for_selector("#dialog[open]")
    title, command = page.inner_text("#dialog-title"), page.inner_text("#dialog-body")
    address = re.search(r"'(http\S+)'$", command)[1]
    assert page.get_attribute("#dialog-open", "href") == address
    page.click("#dialog-close")
    return title, page.request.get(address).json()


def test_every_number_of_a_head_leads_to_its_tensor(chapters: Any) -> None:
    for station, name, column in (("head", "self", 1), ("cross", "cross", 1)):
        host = chapters.locator(f"#works-{station}")
        title, answer = request_of(chapters, host.locator("thead button").nth(column))
        [tensor] = answer["tensors"].values()
        shape = ", ".join(map(str, tensor["shape"]))
        assert title == f"{name}.scores ({shape})"
        shown = host.locator("tbody td:nth-child(2)").all_inner_texts()
        assert len(shown) == len(answer["keys"])
        for text, exact in zip(shown, tensor["values"][0], strict=True):
            assert abs(number(text) - exact) < CLOSE
        weights = [number(text) for text in host.locator("tbody td:nth-child(3)").all_inner_texts()]
        assert abs(sum(weights) - 100) < len(weights) * 0.5


def test_mean_and_variance_and_logits_are_those_of_the_engine(chapters: Any) -> None:
    for place, name in enumerate(("mean", "variance")):
        button = chapters.locator("#works-norm .figure").nth(place)
        shown = number(button.inner_text().split()[-1])
        _, answer = request_of(chapters, button)
        [tensor] = answer["tensors"].values()
        assert abs(shown - tensor["values"][0]) < CLOSE, name
    first = chapters.locator("#works-logits li").first
    shares = [number(text) for text in chapters.locator("#works-logits .n").all_inner_texts()[1:]]
    assert abs(sum(shares) - 100) < len(shares) * 0.5
    share = number(first.locator(".n").inner_text())
    chapters.get_by_role("slider", name="top-k").fill("1")
    assert (
        chapters.locator("#works-logits li").count() == 1
        and number(first.locator(".n").inner_text()) == 100
    )
    chapters.get_by_role("slider", name="top-k").fill("8")
    chapters.get_by_role("slider", name="Temperature").fill("30")
    assert number(first.locator(".n").inner_text()) != share


def test_what_is_masked_has_no_weight_and_the_choice_is_kept(chapters: Any) -> None:
    last = chapters.locator("#works-mask tbody tr").last
    sync_api.expect(last).to_contain_text("−∞")
    sync_api.expect(last).to_contain_text("0\u00a0%")
    chapters.get_by_label("Follow", exact=True).select_option("1")
    sync_api.expect(chapters.locator("#works-pieces .at")).to_contain_text("the")
    sync_api.expect(chapters.locator("#works-head")).to_contain_text("“▁the”")
    chapters.reload()
    sync_api.expect(chapters.locator("#works-head")).to_contain_text("“▁the”")
    chapters.locator(".station .next").first.click()
    sync_api.expect(chapters.locator("#works-batch .pad").first).to_be_visible()
