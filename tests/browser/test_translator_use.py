"""The translator in use: keys, links, several tabs, print, narrow windows, glossaries, and what is
said about a translation."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import SENTENCE, OpenPage, opened
from tests.browser.test_translator import TRANSLATED, translate
from tests.support.servers.live import LiveServer

TWO = "the cat sleeps. a dog walks."


@pytest.mark.parametrize("address", ["/", "/attention"])
def test_the_skip_link_keeps_the_translation_and_its_url(
    open_page: OpenPage, live: LiveServer, address: str
) -> None:
    page = open_page()
    page.goto(f"{live.url}{address}#source=en&target=de&q=the+cat+sleeps.")
    page.wait_for_selector(TRANSLATED)
    before = (page.url, page.locator("#output").text_content())
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.press("Escape")  # a navigation would have begun by now
    assert (page.url, page.locator("#output").text_content()) == before


def test_a_link_that_is_opened_in_the_same_tab_is_shown(page: Any, live: LiveServer) -> None:
    translate(page, SENTENCE)
    before = page.url
    page.goto(f"{live.url}/#source=en&target=fr&q=a+dog")
    page.wait_for_function("() => document.getElementById('output').lang === 'fr'")
    assert (page.input_value("#text"), page.input_value("#to")) == ("a dog", "fr")
    page.go_back()
    page.wait_for_function("() => document.getElementById('output').lang === 'de'")
    assert (page.input_value("#text"), page.url) == (SENTENCE, before)


def test_a_text_that_is_too_long_for_a_link_survives_a_reload_and_a_way_back(
    page: Any, live: LiveServer
) -> None:
    text = "the cat sleeps in a house. " * 90
    translate(page, text)
    for leave in (page.reload, lambda: (page.goto(live.url + "/attention"), page.go_back())):
        leave()
        page.wait_for_selector(TRANSLATED)
        assert page.input_value("#text") == text
    page.click("#clear")
    page.reload()
    page.wait_for_selector("#to option", state="attached")
    assert page.input_value("#text") == ""


def test_tabs_share_the_history(page: Any, live: LiveServer) -> None:
    translate(page, SENTENCE)
    page.click("#copy")
    other = opened(page.context.new_page(), live)
    translate(other, "a dog walks")
    other.click("#copy")
    page.wait_for_function("() => document.querySelectorAll('#entries li').length === 2")
    page.evaluate("document.getElementById('memory').open = true")
    page.click("#entries li >> nth=1 >> button >> nth=1")
    other.wait_for_function("() => document.querySelectorAll('#entries li').length === 1")
    assert [tab.locator("#entries .entry span").text_content() for tab in (page, other)] == [
        "a dog walks"
    ] * 2


def test_a_reason_is_named_once_with_the_numbers_of_its_sentences(page: Any) -> None:
    def flagged(route: Any) -> None:
        answer = route.fetch()
        body = answer.json()
        for sentence in body["details"]["sentences"][-1]:
            sentence |= {"flags": ["omission"], "confidence": 0.684}
        route.fulfill(response=answer, json=body)

    page.route("**/translate", flagged)
    translate(page, TWO)
    assert (
        page.inner_text("#confidence").replace("\xa0", " ")
        == "Probability that this is not wrong: 68 %, 68 %"
    )
    assert "68" in page.get_attribute("#output .s >> nth=1", "title")
    assert (
        page.inner_text("#warning")
        == "Sentence 1, 2: a part of the text is probably not translated."
    )


def test_a_language_without_a_model_is_named(page: Any) -> None:
    page.select_option("#from", "auto")
    for text, language in (
        ("שלום עולם", "Hebrew"),
        ("Dove posso trovare la stazione più vicina?", "Italian"),
    ):
        page.fill("#text", text)
        page.wait_for_selector(
            f"#warning:not([hidden]) >> text=No model here translates from {language}."
        )
        assert page.locator("#output").text_content() == text
    page.select_option("#from", "en")
    page.wait_for_selector("#offer:not([hidden]) >> text=No model here translates from Italian.")
    page.select_option("#from", "auto")
    page.fill("#text", "12345")
    page.wait_for_function("() => document.getElementById('output').textContent === '12345'")
    assert page.locator("#warning").is_hidden() and page.inner_text("#detected") == ""


def test_a_print_shows_the_whole_texts_in_dark_ink(open_page: OpenPage, live: LiveServer) -> None:
    page = opened(open_page(viewport={"width": 1280, "height": 500}, color_scheme="dark"), live)
    translate(page, "the cat sleeps in a house. " * 40)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 600, "height": 500})  # paper is narrower
    for side in ("#mirror", "#output"):
        assert page.locator(side).is_visible()
        assert page.locator(side).evaluate(
            "node => node.parentElement.scrollHeight <= node.parentElement.clientHeight"
        )
    ink = page.locator("#output").evaluate("node => getComputedStyle(node).color")
    assert (
        ink
        == page.locator("#mirror").evaluate("node => getComputedStyle(node).color")
        == "rgb(28, 29, 34)"
    )


GERMAN = "Der Hund schläft heute im Garten, und die Katze auch."
ENGLISH = "The dog sleeps in the garden today, and so does the cat."


@pytest.mark.parametrize(
    ("locale", "texts"), [("en-GB", (GERMAN, ENGLISH)), ("de-DE", (ENGLISH, GERMAN))]
)
def test_the_target_is_kept_while_texts_are_in_either_language(
    open_page: OpenPage, live: LiveServer, locale: str, texts: tuple[str, str]
) -> None:
    page = open_page(locale=locale)
    page.goto(live.url)
    page.wait_for_selector("#to option", state="attached")
    default = page.input_value("#to")
    for number in range(3):
        for text in texts:
            page.fill("#text", f"{text} {number}.")
            page.wait_for_function(
                "text => document.getElementById('mirror').textContent.startsWith(text)", arg=text
            )
            target = "de" if text == ENGLISH else "en"
            page.wait_for_selector(f"#output[lang={target}]:not(.busy) .s")
        assert page.input_value("#to") == default
        page.reload()
        page.wait_for_selector("#output:not(.busy) .s")


def test_a_text_in_another_language_than_the_chosen_one_can_be_translated_from_it(
    page: Any,
) -> None:
    translate(page, GERMAN)
    page.click("#offer button >> text=Translate from German")
    page.wait_for_selector("#output[lang=en]:not(.busy) .s")
    assert (page.input_value("#from"), page.input_value("#to")) == ("de", "en")
    assert page.locator("#offer").is_hidden()


@pytest.mark.parametrize("address", ["/", "/attention"])
def test_a_long_text_shows_its_progress(
    open_page: OpenPage, live: LiveServer, address: str
) -> None:
    page = open_page()
    page.goto(f"{live.url}{address}#source=en&target=de")
    page.wait_for_selector("#to option", state="attached")
    page.evaluate(
        """() => { window.shares = [];
        const set = (value) => document.getElementById("progress").hidden || shares.push(value / progress.max);
        Object.defineProperty(document.getElementById("progress"), "value", { set }); }"""
    )
    page.fill(
        "#text", " ".join(f"the cat number {number} sleeps in a house." for number in range(60))
    )
    page.press("#text", "Control+Enter")
    page.wait_for_selector(TRANSLATED)
    shares = page.evaluate("shares")
    assert shares == sorted(shares) and any(0.2 < share < 0.8 for share in shares)
    assert page.locator("#progress").is_hidden()


@pytest.mark.parametrize("address", ["/", "/attention", "/live"])
def test_what_an_input_method_composes_is_translated_when_it_is_written(
    open_page: OpenPage, live: LiveServer, address: str
) -> None:
    page = open_page()
    page.clock.install()
    page.goto(f"{live.url}{address}#source=en&target=de&q=a")
    page.wait_for_selector("#to option", state="attached")
    page.clock.run_for(10_000)
    page.focus("#text")
    page.keyboard.press("ControlOrMeta+a")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.post_data or ""))
    keyboard = page.context.new_cdp_session(page)
    for composed in ("hau", "hause "):
        keyboard.send(
            "Input.imeSetComposition", {"text": composed, "selectionStart": 0, "selectionEnd": 3}
        )
        # translates what is written
        page.evaluate("document.getElementById('to').dispatchEvent(new Event('change'))")
        page.clock.run_for(10_000)
    assert page.input_value("#text") == "hause " and not any("hau" in body for body in sent)
    with page.expect_request(lambda request: "house " in (request.post_data or "")):
        keyboard.send("Input.insertText", {"text": "house "})
        page.clock.run_for(10_000)


def test_no_translator_of_a_browser_translates_the_texts(page: Any) -> None:
    texts = "#text, #mirror, #output, #alternatives, #entries, #pairs"
    assert (
        page.eval_on_selector_all(texts, "nodes => nodes.map((node) => node.translate)")
        == [False] * 6
    )


def test_the_form_of_address_is_chosen_where_the_model_has_it(page: Any, live: LiveServer) -> None:
    assert not page.is_visible("#formality")

    def formal(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(
            response=answer, json=[language | {"formality": ["de"]} for language in answer.json()]
        )

    page.route("**/languages", formal)
    page.goto(f"{live.url}/?again#source=en&target=de&q=a+dog")
    page.wait_for_selector(TRANSLATED)
    with page.expect_request("**/translate") as sent:
        page.select_option("#formality", "more")
    assert sent.value.post_data_json["formality"] == "prefer_more"
    page.wait_for_function("() => location.hash.includes('formality=more')")
    with page.expect_request("**/translate") as sent:
        page.reload()
    assert sent.value.post_data_json["formality"] == "prefer_more"
    page.wait_for_selector(TRANSLATED)
    assert "prefer_more" in page.get_attribute("#inside", "href")
    page.select_option("#to", "fr")
    page.wait_for_function("() => document.getElementById('output').lang === 'fr'")
    assert not page.is_visible("#formality") and "formality" not in page.url


def wait_for_term(page: Any, term: str) -> None:
    page.wait_for_function(
        "term => document.getElementById('output').textContent.includes(term)", arg=term
    )


def wait_without_term(page: Any, term: str) -> None:
    page.wait_for_function(
        "term => { const text = document.getElementById('output').textContent; return text && "
        "!text.includes(term); }",
        arg=term,
    )


def test_own_terms_are_used_and_kept_for_each_pair_of_languages(page: Any) -> None:
    page.click("#glossary summary")
    page.select_option("#terms", "own")
    page.fill(
        "#pairs", f"cat = Schnurrer\n\nunfinished\nhouse\tHütte\ncat = Maus\n= a\n{'x' * 301} = b"
    )
    page.fill("#text", SENTENCE)
    wait_for_term(page, "Schnurrer")
    wait_for_term(page, "Hütte")
    unused = page.inner_text("#unused")
    assert [
        part in unused for part in ("Line 3", "“unfinished”", "Line 5", "“cat = Maus”", "Line 6")
    ] == [True] * 5
    assert "Line 1" not in unused and "Line 4" not in unused and len(unused) < 300
    page.reload()
    wait_for_term(page, "Schnurrer")
    page.select_option("#to", "fr")
    wait_without_term(page, "Schnurrer")
    page.select_option("#to", "de")
    wait_for_term(page, "Schnurrer")
    page.click("#inside")  # the explorer translates with the same terms
    page.wait_for_selector("#inside:not(.busy) #panel-attention canvas")
    assert "Schnurrer" in page.inner_text("#output") and "glossary" in page.inner_text("#facts")
    page.go_back()
    wait_for_term(page, "Schnurrer")
    page.click("#glossary summary")
    page.select_option("#terms", "")
    wait_without_term(page, "Schnurrer")


@pytest.fixture
def glossaries(live: LiveServer) -> Iterator[None]:
    """Glossaries of two pairs of languages on the server."""
    made = []
    for name, target in (("Cats", "de"), ("Chats", "fr")):
        body = {
            "name": name,
            "source_lang": "en",
            "target_lang": target,
            "entries": "cat\tSchnurrer",
        }
        made.append(live.post("/v2/glossaries", body).json()["glossary_id"])
    yield
    for id in made:
        live.ask(urllib.request.Request(f"{live.url}/v2/glossaries/{id}", method="DELETE"))


def test_a_glossary_of_the_server_is_chosen(glossaries: None, page: Any) -> None:
    page.click("#glossary summary")
    page.wait_for_selector("#terms option:text-is('Cats')", state="attached")
    assert page.locator("#terms option:text-is('Chats')").count() == 0
    page.select_option("#terms", label="Cats")
    page.fill("#text", SENTENCE)
    wait_for_term(page, "Schnurrer")
    page.set_input_files(
        "#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": SENTENCE.encode()}
    )
    with page.expect_download() as download:
        page.click("#files a")
    assert "Schnurrer" in download.value.path().read_text(encoding="utf-8")
