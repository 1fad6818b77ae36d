"""The explorer in the languages of the translator's page."""

from __future__ import annotations

import json
import re

import pytest

from server.web.page import FOLDER
from tests.browser.conftest import INTERFACES, SENTENCE, OpenPage
from tests.support.servers.live import LiveServer

ROWS = json.loads((FOLDER / "explorer/sentences.json").read_text("utf-8"))
SHOWN = """() => [...document.querySelectorAll("body, body *")].flatMap((node) => [
    ...[...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data.trim()),
    ...["aria-label", "title", "placeholder"].map((name) => node.getAttribute(name) ?? ""),
]).filter(Boolean)"""
TABS = {
    "attention": ["role=radio >> nth=0", "#panel-attention .heat canvas"],
    "attention&view=figures": ["#panel-attention tbody"],
    "attention&kind=alignment": ["#panel-attention .heat canvas"],
    "decoding&trace=2": ["#panel-decoding .node"],
    "whynot&asked=green+bread": ["#panel-whynot .split canvas"],
    "heads&off=cross.0.1&broken=1": ["#panel-heads .thumb", "#again"],
    "works": ["#works-order :text('R²')", "#works-logits .doubts"],
}


@pytest.mark.parametrize("language", INTERFACES[1:])
def test_no_sentence_stays_english(open_page: OpenPage, live: LiveServer, language: str) -> None:
    own = {row[INTERFACES.index(language)] for row in ROWS}
    english = {row[0] for row in ROWS if re.search("[a-z]{3}", row[0])} - own
    any_of = re.compile(
        "|".join(re.sub(r"\\{\d\\}", ".*", re.escape(text)) for text in english), re.DOTALL
    )
    page = open_page(locale=f"{language}-{language.upper()}")
    text = f"source=en&target=de&beam=2&q={SENTENCE.replace(' ', '+')}"
    for tab, selectors in TABS.items():
        page.set_viewport_size({"width": 1280, "height": 720})
        page.goto(f"{live.url}/attention#{text}&tab={tab}")
        page.wait_for_selector("#output:not(.busy) .w")
        for selector in selectors:
            page.wait_for_selector(selector)
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab
        shown = set(page.evaluate(SHOWN)) - own
        assert len(shown) > 20 and [t for t in shown if any_of.fullmatch(t)] == [], tab
    numbers = " ".join(page.locator("#works-training svg text").all_text_contents())
    assert re.search(r"\d,\d", numbers) and not re.search(r"\d\.\d", numbers)
    assert page.get_attribute("html", "lang") == page.input_value("#interface") == language


def test_the_language_is_chosen_once_for_both_pages(open_page: OpenPage, live: LiveServer) -> None:
    page = open_page(locale="de-DE")
    page.goto(f"{live.url}/attention#source=en&target=de&q=the+cat+sleeps.")
    page.wait_for_selector("#output:not(.busy) .w")
    for language, tab in (("fr", "Décodage"), ("en", "Decoding"), ("es", "Descodificación")):
        page.select_option("#interface", language)
        page.wait_for_selector(f"html[lang={language}] #tab-decoding >> text={tab}")
        page.wait_for_selector("#output:not(.busy) .w")
        assert page.input_value("#text") == "the cat sleeps."
    page.click("header nav a >> nth=0")
    page.wait_for_selector("html[lang=es] #choose >> text=Traducir un archivo")
