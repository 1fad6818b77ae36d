"""The explorer in a browser: pointing, keyboard, maps, views, downloads, permalinks."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.browser.conftest import SENTENCE, OpenPage, explored, translate
from tests.support.servers.live import WORDS, LiveServer


def test_weights_are_read_with_the_keyboard(explorer: Any) -> None:
    explorer.focus("#panel-attention .heat canvas")
    explorer.keyboard.press("ArrowRight")
    explorer.keyboard.press("ArrowDown")
    assert "looks at" in explorer.inner_text("#panel-attention .readout")
    explorer.focus("#tab-attention")
    explorer.keyboard.press("ArrowRight")
    assert explorer.get_attribute("#tab-decoding", "aria-selected") == "true"


def test_the_model_view_enlarges_a_head(explorer: Any) -> None:
    explorer.click("role=radio[name='All heads']")
    assert explorer.locator("#panel-attention .thumb").count() == 2 * 4
    explorer.click("#panel-attention .thumb >> nth=6")
    assert "cross, layer 1, head 2" in explorer.inner_text("#panel-attention .card h3 >> nth=0")
    for kind in ("Encoder", "Decoder"):
        explorer.click(f"role=radio[name='{kind}']")
        assert kind.lower() in explorer.inner_text("#panel-attention .card h3 >> nth=0")
    explorer.select_option("select[aria-label=Head]", "rollout")
    assert "rollout" in explorer.inner_text("#panel-attention .card h3 >> nth=0")
    explorer.click("role=radio[name='Numbers']")
    assert explorer.locator("#panel-attention tbody tr").count() == 2 * 4


def test_aligned_words_are_framed_and_drawn(explorer: Any) -> None:
    explorer.get_by_role("radio", name="Alignment").click()
    assert "by attention" in explorer.inner_text(
        "#panel-attention .card h3 >> nth=0"
    )  # the model translates in one direction only
    canvas = explorer.locator("#panel-attention canvas").first
    canvas.focus()
    canvas.press("ArrowRight")
    assert "belongs to" in explorer.inner_text("#panel-attention .readout")
    assert explorer.locator("#output .w.on").count() == 1


def test_the_trace_shows_beams_and_candidates(explorer: Any) -> None:
    explorer.click("#tab-decoding")
    explorer.wait_for_selector("#panel-decoding svg .node.win")
    assert explorer.locator("#panel-decoding svg .edge.win").count() >= 1
    explorer.click("#panel-decoding svg .node >> nth=1")
    assert explorer.locator("#panel-decoding .bars i").count() == 8
    explorer.select_option("select[aria-label='Beam width of the trace']", "4")
    explorer.wait_for_selector("#panel-decoding tbody tr >> nth=3")
    with explorer.expect_download() as file:
        explorer.click("#panel-decoding button >> text=Download")
    drawn = Path(file.value.path()).read_text()
    assert drawn.startswith("<svg") and "currentcolor" not in drawn.lower() and "rgb(" in drawn


def test_the_tree_and_its_texts_stay_inside_its_card(open_page: OpenPage, live: LiveServer) -> None:
    page = open_page()
    text = quote(" ".join(WORDS * 2))
    page.goto(f"{live.url}/attention#source=en&target=de&tab=decoding&trace=8&q={text}")
    page.wait_for_selector("#panel-decoding svg .node.win")
    inside = """([outer, inner]) => [...document.querySelectorAll(inner)].every((node) => {
        const [a, b] = [node.closest(outer), node].map((each) => each.getBoundingClientRect());
        return a.left <= b.left && b.right <= a.right && a.top <= b.top && b.bottom <= a.bottom; })"""
    for width in (1280, 1430, 700, 360):
        page.set_viewport_size({"width": width, "height": 800})  # it is drawn again
        for outer, inner in ((".card", ".tree .node"), (".node", ".node text")):
            page.wait_for_function(inside, arg=[outer, inner])
        tops = page.locator(".tree .node").evaluate_all(
            "nodes => nodes.map((node) => node.getCTM().f)"
        )
        steps = page.locator(".tree .node:not(.repeated)").count()
        assert steps > 100 and len(set(tops)) > 8  # more than one band


def test_switching_heads_off_shows_the_difference(explorer: Any) -> None:
    explorer.click("#tab-heads")
    explorer.click("#panel-heads .thumb >> nth=0")
    assert "1 head off" in explorer.inner_text("#panel-heads")
    explorer.click("role=button[name='All of these off']")
    explorer.click("#again")
    explorer.wait_for_selector("#panel-heads .diff")
    assert "log-probability" in explorer.inner_text("#panel-heads .card")
    pixels = "nodes => nodes.map((node) => node.toDataURL())"
    with_all, without = explorer.locator("#panel-heads .heat canvas").evaluate_all(pixels)
    assert with_all != without
    off = explorer.locator("#panel-heads .thumb[aria-pressed=true]").count()
    explorer.reload()
    explorer.wait_for_selector("#panel-heads .thumb")
    assert explorer.locator("#panel-heads .thumb[aria-pressed=true]").count() == off > 0


def test_the_report_opens_from_disk_without_a_network(
    explorer: Any, open_page: OpenPage, tmp_path: Path
) -> None:
    with explorer.expect_download() as download:
        explorer.click("#report")
    file = tmp_path / "attention.html"
    download.value.save_as(file)
    page = open_page(offline=True)
    page.goto(file.as_uri())
    page.wait_for_selector("#report canvas")
    assert page.inner_text("h1") == SENTENCE
    levels = [
        int(name[1])
        for name in page.eval_on_selector_all(
            "h1, h2, h3", "nodes => nodes.map((n) => n.localName)"
        )
    ]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    page.click("role=radio[name='All heads']")
    assert page.locator(".thumb").count() == 8


def test_text_is_not_interpreted_as_markup(open_page: OpenPage, live: LiveServer) -> None:
    attack = (
        "<img src=x onerror=\"document.title='broken'\"> "
        "</script><script>document.title='broken'</script>"
    )
    page = explored(open_page(), live, f"{attack} cat")
    page.click("#tab-whynot")
    page.fill("#asked", attack)
    page.click("#panel-whynot button.primary")
    page.wait_for_selector("#panel-whynot .split canvas")
    assert page.locator("#inside img, #output img, #mirror img").count() == 0
    with page.expect_download() as download:
        page.click("#report")
    report = open_page(offline=True)
    report.goto(
        Path(download.value.path())
        .rename(Path(download.value.path()).with_suffix(".html"))
        .as_uri()
    )
    report.wait_for_selector("#report canvas")
    assert ("broken" in page.title(), report.locator("img").count()) == (False, 0)
    assert "broken" not in (report.evaluate("window.broken || ''"))


def test_the_layout_of_a_phone_with_a_dark_theme(open_page: OpenPage, live: LiveServer) -> None:
    page = explored(
        open_page(
            viewport={"width": 360, "height": 740},
            color_scheme="dark",
            has_touch=True,
            is_mobile=True,
        ),
        live,
    )
    assert page.get_attribute("html", "data-theme") == "dark"
    page.tap("#output .w >> nth=0")
    assert page.locator("#output .w.on").count() == 1
    for tab in ("attention", "decoding", "whynot", "heads", "works"):
        page.tap(f"#tab-{tab}")
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.tap("#theme")
    assert page.get_attribute("html", "data-theme") == "light"


def test_a_view_shows_its_json_and_curl_command(explorer: Any) -> None:
    explorer.click("#panel-attention .card h3 button")
    assert explorer.inner_text("#dialog-body").startswith("curl ")
    answer = explorer.request.get(explorer.get_attribute("#dialog-open", "href"))
    assert answer.json()["source"]["text"] == SENTENCE
    explorer.click("#dialog-close")
    explorer.click("#curl")
    assert "beam_size" not in explorer.inner_text("#dialog-body")
    explorer.click("#dialog-close")
    explorer.select_option("#beam", "2")
    explorer.wait_for_selector("#film .beams [role=radio]")
    explorer.click("#curl")
    assert '"beam_size":2' in explorer.inner_text("#dialog-body")


def test_sentences_are_loaded_on_demand(open_page: OpenPage, live: LiveServer) -> None:
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: "/attention?" in request.url and asked.append(request.url))
    page.goto(live.url + "/attention")
    page.wait_for_selector("#opening svg")
    asked.clear()
    translate(page, "the cat walks.\na dog sleeps. where is the station?")
    assert page.locator("#sentences button").count() == 3
    before = len(asked)
    assert before in (1, 2)  # the pause after typing translates too, if the click comes late
    page.click("#sentences button >> nth=2")
    page.wait_for_selector("#sentences button[aria-pressed=true] >> text=station")
    page.wait_for_selector("#mirror .w >> text=station")
    assert len(asked) == before + 1


def test_a_comparison_says_what_differs(explorer: Any, live: LiveServer) -> None:
    # The random model writes a text in other pieces than those into which the tokenizer divides it.
    own = urlencode(
        {
            "q": SENTENCE,
            "translation": "old dog",
            "source": "en",
            "target": "de",
            "numbers": "uint16",
        }
    )
    written = f"{live.url}/attention?{own}&figures=true&format=json&alignment=combined"
    explorer.route("**/attention?id=*", lambda route: route.continue_(url=written))
    explorer.reload()
    explorer.click("#tab-whynot")
    explorer.wait_for_selector("#asked")
    explorer.click("#panel-whynot button.primary")
    explorer.wait_for_selector("#panel-whynot .big >> text=This is the translation of the model.")
    assert explorer.locator("#panel-whynot .chip.differs").count() == 0
    explorer.fill("#asked", "old house dog")
    explorer.click("#panel-whynot button.primary")
    explorer.wait_for_selector("#panel-whynot .big >> text=log-probability")
    before, after = (
        card.locator(".chip").count()
        for card in explorer.locator("#panel-whynot .split > .card").all()
    )
    assert explorer.locator("#panel-whynot .differs").count() == after - before > 0


def test_labels_of_a_map_are_not_cut(explorer: Any) -> None:
    cut = (
        "nodes => nodes.filter((node) => node.scrollWidth > node.clientWidth).map((node) => "
        "node.textContent)"
    )
    assert explorer.locator("#panel-attention .heat .keys span").evaluate_all(cut) == []


def test_what_is_left_is_freed(open_page: OpenPage, live: LiveServer) -> None:
    """Locators wait without handles, which would keep the elements alive."""
    page = explored(open_page(), live, "the cat sleeps. a dog walks.")
    shown = {
        "works": "#works-logits .doubts",
        "decoding": "#panel-decoding .node",
        "attention": "#panel-attention canvas",
    }
    memory = page.context.new_cdp_session(page)
    memory.send("Performance.enable")

    def change() -> list[float]:
        """Shows other tabs and the other sentence, and returns the numbers of nodes and of
        listeners."""
        for tab, ready in shown.items():
            page.click(f"#tab-{tab}")
            page.locator(ready).first.wait_for()
            page.click("#sentences [aria-pressed=false]")
            page.locator(f"#inside:not(.busy) {ready}").first.wait_for()
        memory.send("HeapProfiler.collectGarbage")
        found = {
            metric["name"]: metric["value"]
            for metric in memory.send("Performance.getMetrics")["metrics"]
        }
        return [found["Nodes"], found["JSEventListeners"]]

    first = change()
    for _ in range(3):
        last = change()
    assert all(after < 1.5 * before for before, after in zip(first, last, strict=True))


def test_the_map_of_a_long_sentence_scrolls_and_zooms(explorer: Any) -> None:
    translate(explorer, " ".join(WORDS * 3))
    heat, canvas = (
        explorer.locator("#panel-attention .heat"),
        explorer.locator("#panel-attention .heat canvas"),
    )
    assert explorer.locator("#panel-attention .heat .keys span").count() >= 25
    for view in (heat, explorer.locator(".lines")):
        assert view.bounding_box()["height"] < 0.8 * 900
    columns, width = canvas.evaluate("node => [node.width, node.clientWidth]")
    assert width / columns >= 12
    for _ in range(3):
        explorer.click("role=button[name='Larger']")
    assert canvas.evaluate("node => node.clientWidth") > width
    heat.evaluate("node => node.scrollTo(300, 300)")
    assert heat.evaluate("node => node.scrollLeft") > 0
    box, labels = heat.bounding_box(), explorer.locator(".heat .queries").bounding_box()
    assert abs(box["x"] - labels["x"]) < 2  # the labels stay in view
    assert abs(box["y"] - explorer.locator(".heat .corner").bounding_box()["y"]) < 2
    explorer.click("role=button[name='Fit']")
    assert canvas.evaluate("node => node.clientWidth") == width


def test_all_maps_have_one_scale_with_a_bar(explorer: Any) -> None:
    assert explorer.inner_text("#panel-attention .scale").split("\n")[-1].endswith("100 %")
    explorer.click("role=radio[name='All heads']")
    assert explorer.locator("#panel-attention .scale").count() == 1


def test_pointing_at_the_text_marks_the_map_and_the_lines(explorer: Any) -> None:
    explorer.hover("#output .w >> nth=0")
    assert explorer.locator("#panel-attention .heat .queries .on").count() == 1
    assert explorer.locator("#panel-attention .lines .left .on").count() == 1
    explorer.hover("#panel-attention .lines .right button >> nth=0")
    assert explorer.locator("#mirror .w.on").count() == 1
    assert explorer.locator("#panel-attention .heat .keys .on").count() == 1


def test_special_tokens_are_shown_on_request(explorer: Any) -> None:
    keys = explorer.locator("#panel-attention .heat .keys span")
    assert "</s>" not in keys.all_text_contents()
    explorer.check("role=checkbox")
    assert {">>de<<", "</s>"} <= set(keys.all_text_contents())


def test_roles_of_decoder_heads_are_relative_to_the_written_token(explorer: Any) -> None:
    explorer.click("role=radio[name='Decoder']")
    explorer.click("role=radio[name='Numbers']")
    text = explorer.inner_text("#panel-attention tbody")
    assert not re.search("same token|next token", text)
