"""The film of a translation: it plays, it can be moved, and it shows other versions with their
cost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import SENTENCE, OpenPage, PageLog, explored
from tests.support.servers.live import LiveServer

ENDED = "#film .play >> text=Play again"


@pytest.fixture
def page(explorer: Any) -> Any:
    """The explorer with the film at its end: the fixture prefers reduced motion, so nothing plays
    by itself."""
    explorer.wait_for_selector(ENDED)
    return explorer


def visible_words(page: Any) -> int:
    return int(
        page.locator("#film .target .fw").evaluate_all(
            "nodes => nodes.filter(n => n.style.opacity === '1').length"
        )
    )


def show_word(page: Any, number: int) -> None:
    """Moves the film to a word, counted from 0."""
    page.locator("#film .target .fw").nth(number).click()
    page.wait_for_selector("#film .target .fw.on >> nth=0")


def text_of(page: Any) -> str:
    return str(page.locator("#film .target").text_content())


def test_the_film_plays_to_its_end(open_page: OpenPage, live: LiveServer) -> None:
    page = explored(open_page(reduced_motion="no-preference"), live)
    page.evaluate("scrollTo(0, 0)")  # the film plays where it is seen
    page.wait_for_selector(ENDED)
    words = page.locator("#film .target .fw").count()
    assert visible_words(page) == words >= 1
    assert page.locator("#film .source .fw").all_text_contents() == SENTENCE.split()
    page.click("#film .play")
    page.wait_for_function(
        "() => document.querySelector('#film .target .fw:last-of-type').style.opacity === '0'"
    )
    page.wait_for_selector(ENDED)
    assert visible_words(page) == words and "film=" not in page.url


def test_without_motion_words_appear_at_once(page: Any) -> None:
    assert visible_words(page) == page.locator("#film .target .fw").count()
    assert page.locator("#film .runners").is_hidden()
    page.evaluate(
        """() => {
            const last = [...document.querySelectorAll("#film .target .fw")].at(-1), seen = (window.seen = new Set());
            new MutationObserver(() => seen.add(last.style.opacity)).observe(last, { attributeFilter: ["style"] });
        }"""
    )
    page.click("#film .play")
    page.wait_for_function("() => window.seen.has('0')")
    page.wait_for_selector(ENDED)
    assert page.evaluate("[...window.seen].sort()") == ["0", "1"]  # no word is half visible


def test_the_scrubber_goes_from_word_to_word(page: Any) -> None:
    page.focus("#scrubber")
    page.keyboard.press("ArrowLeft")
    words = page.locator("#film .target .fw").count()
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute("#scrubber", "aria-valuetext").startswith(
        f"word {words - 1} of {words}: "
    )
    assert visible_words(page) == words - 1
    assert "probability" in page.inner_text("#film .readout")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert page.get_attribute("#scrubber", "aria-valuetext") == "end"
    page.wait_for_selector(ENDED)


def test_a_word_shows_its_ribbons_and_what_was_almost_written(page: Any) -> None:
    show_word(page, 1)
    assert visible_words(page) == 2
    assert page.locator("#film .runners button").count() == 3
    ink = (
        "node => node.getContext('2d').getImageData(0, 0, node.width, node.height).data.some((x) "
        "=> x)"
    )
    assert page.locator("#film .stage canvas").evaluate(ink)
    page.reload()
    page.wait_for_selector("#film .runners button")
    assert visible_words(page) == 2 and "film=1" in page.url


def test_a_runner_up_is_decoded_from_there_with_its_cost(page: Any) -> None:
    before, served = text_of(page), page.locator("#output").text_content()
    show_word(page, 1)
    page.click("#film .runners button:not([disabled]) >> nth=0")
    page.wait_for_selector("#film .cost p")
    assert "log-probability" in page.inner_text("#film .cost")
    after = text_of(page)
    assert after != before
    assert page.locator("#film .cost .diff ins").count() >= 1
    assert page.locator("#output").text_content() == served
    page.reload()
    page.wait_for_selector("#film .cost p")
    assert text_of(page) == after
    page.click("#film .cost button >> text=Compare")
    page.wait_for_selector("#panel-whynot .split canvas")
    assert page.input_value("#asked") == after
    page.go_back()
    page.wait_for_selector("#tab-attention[aria-selected=true]")
    page.click("#film .cost button >> text=Back to the translation")
    page.wait_for_selector("#film .cost", state="hidden")
    assert text_of(page) == before


def test_hypotheses_of_the_beam_can_be_chosen(page: Any, page_log: PageLog) -> None:
    page.select_option("#beam", "4")
    page.wait_for_selector("#film .beams [role=radio]")
    best = text_of(page)
    page.click("#film .beams [role=radio] >> nth=2")
    page.wait_for_selector("#film .cost >> text=Hypothesis 3")
    third = text_of(page)
    assert third != best and "hyp=2.4" in page.url
    page.click("#tab-decoding")
    page.wait_for_selector("#panel-decoding tbody tr >> nth=3")
    page.click("#panel-decoding tbody tr >> nth=1 >> text=Watch")
    page.wait_for_selector("#film .cost >> text=Hypothesis 2")
    assert text_of(page) not in (best, third)
    page.click("#film .beams [role=radio] >> nth=0")
    page.wait_for_selector("#film .cost", state="hidden")
    assert text_of(page) == best


def test_a_broken_head_changes_the_film_and_the_laboratory(page: Any) -> None:
    page.click("#chapters [data-head='cross.1.2']")
    page.wait_for_selector("#film .cost >> text=Without this head")
    assert "off=cross.1.2" in page.url and "broken=1" in page.url
    shown = page.locator("#without").text_content()
    assert shown and shown == page.locator("#film .cost .diff").text_content()
    page.click("#tab-heads")
    page.wait_for_selector("#panel-heads .thumb[aria-pressed=true]")
    page.click("#panel-heads .thumb[aria-pressed=true]")
    page.wait_for_selector("#chapters [data-head='cross.1.2'][aria-pressed=false]")
    page.click("#chapters [data-head='cross.0.1']")
    page.wait_for_function("() => location.hash.includes('off=cross.0.1')")
    page.reload()
    page.wait_for_selector("#film .cost >> text=Without this head")
    page.wait_for_selector("#chapters [data-head='cross.0.1'][aria-pressed=true]")
    page.click("#chapters button >> text=Mend all")
    page.wait_for_selector("#film .cost", state="hidden")
    assert "off=" not in page.url


def test_roles_over_sentences_are_shown_where_the_model_has_them(
    explorer: Any, open_page: OpenPage
) -> None:
    url = explorer.url
    explorer.click("role=radio[name='Numbers']")
    assert "over" not in explorer.inner_text("#panel-attention thead")
    page = open_page()

    def with_roles(route: Any) -> None:
        answer = route.fetch().json()
        [leg] = answer["legs"]
        heads = {
            kind: [[{"role": "rare", "share": 0.6}] * 4] * 2
            for kind in ("cross", "encoder", "decoder")
        }
        costs = {kind: [[0.5, 0.05, 0.01, -0.001]] * 2 for kind in heads}
        losses = {
            "sentences": 9,
            "loss": 1,
            "heads": costs,
            "layers": {"encoder": [0.1, 0.9]},
            "others": {"encoder": 0.1},
        }
        leg["roles"] = {"sentences": 24, "directions": ["en-de"], "heads": heads, "losses": losses}
        route.fulfill(json=answer)

    page.route("**/model?*", with_roles)
    page.goto(url.replace("view=map", "view=figures"))
    page.wait_for_selector("#panel-attention tbody tr")
    assert "over 24 sentences" in page.inner_text("#panel-attention thead")
    assert "the rarest piece (60\u00a0%)" in page.inner_text("#panel-attention tbody tr >> nth=0")
    page.click("#chapters .chapter >> nth=0 >> .head >> nth=1")
    page.wait_for_selector("#chapters .caption >> text=Over 24 sentences: the rarest piece (60 %)")
    costs = "costs {} nats a piece: it "
    for head, cost in enumerate(
        [
            ("0.50", "matters."),
            ("0.05", "matters a little."),
            ("0.01", "hardly"),
            ("0.00", "hardly"),
        ]
    ):
        page.click(f"#chapters .chapter >> nth=0 >> .head >> nth={1 + head}")
        page.wait_for_selector(f"#chapters .caption >> text={costs.format(cost[0]) + cost[1]}")
    page.click("role=radio[name='All heads']")
    assert page.locator("#panel-attention .thumb.alive").count() == 2 * 2
    page.click("#panel-attention >> role=radio[name=/encoder/i]")
    page.wait_for_selector(
        "#panel-attention >> text=Without attention in layer 1 a piece costs 0.90 nats more"
    )
