"""The translator at / in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser.conftest import INTERFACES, SENTENCE, OpenPage, PageLog, opened
from tests.support.servers.live import LiveServer

TRANSLATED = "#output:not(.busy) .w"


def translate(page: Any, text: str) -> str:
    page.fill("#text", text)
    page.wait_for_selector("#output.busy, #output .w")
    page.wait_for_selector(TRANSLATED)
    return str(page.locator("#output").text_content())


def test_typed_text_is_translated_counted_copied_and_cleared(page: Any, live: LiveServer) -> None:
    text = "the cat 😀 sleeps, write to anna@example.com"
    served = live.post("/translate", {"q": text, "source": "en", "target": "de"}).json()[
        "translatedText"
    ]
    assert translate(page, text) == served
    page.click("#copy")
    assert page.evaluate("navigator.clipboard.readText()") == served
    assert page.inner_text("#count").startswith(str(len(text)))
    assert (
        page.get_attribute("#output", "lang") == "de"
        and page.get_attribute("#text", "lang") == "en"
    )
    page.click("#clear")
    assert (page.input_value("#text"), page.locator("#output").text_content()) == ("", "")
    assert not page.locator("#copy").is_visible()


def test_a_flagged_sentence_is_underlined_with_the_reason_in_each_language(page: Any) -> None:
    flags = ["omission", "copied"]

    def flagged(route: Any) -> None:
        answer = route.fetch()
        body = answer.json()
        body["details"]["sentences"][-1][0]["flags"] = flags
        route.fulfill(response=answer, json=body)

    page.route("**/translate", flagged)
    reasons = set()
    for language in INTERFACES:
        page.select_option("#interface", language)
        page.fill("#text", f"{SENTENCE} {language}")
        page.wait_for_selector("#output:not(.busy) .s.flagged[title]")
        page.wait_for_function(
            "text => document.querySelector('#mirror').textContent.startsWith(text)",
            arg=f"{SENTENCE} {language}",
        )
        reason = page.get_attribute("#output .s.flagged", "title")
        assert page.locator("#warning").is_visible()
        assert all(
            part.strip() in page.inner_text("#warning") for part in reason.split(".") if part
        )
        reasons.add(reason)
    assert len(reasons) == len(INTERFACES)
    flags.clear()
    page.fill("#text", SENTENCE)
    page.wait_for_selector("#output:not(.busy) .s:not(.flagged)")
    assert not page.locator("#warning").is_visible()


def test_word_pairs_and_doubtful_words_are_marked(page: Any) -> None:
    def linked(route: Any) -> None:  # the words of a random model belong to none of the source
        answer = route.fetch()
        body = answer.json()
        body["alignment"]["links"] = [[len(body["source"]["words"]) - 2, 0, 0.9]]
        route.fulfill(response=answer, json=body)

    page.route("**/attention?*", linked)
    translate(page, SENTENCE)
    assert page.locator("#output .unsure").count() >= 1 and page.locator("#doubt").is_visible()
    assert "25" in page.get_attribute("#output .unsure >> nth=0", "title")
    page.hover("#output .w >> nth=0")
    assert (
        page.locator("#output .w.on").count() == 1
        and page.locator("#mirror .w.linked").count() == 1
    )
    source = page.inner_text("#pair").split(" → ")[0]
    box = page.locator("#mirror .w.linked").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator("#mirror .w.on").inner_text() == source
    assert page.locator("#output .w.linked").count() >= 1
    page.focus("#output")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#output .w").nth(1).get_attribute("class").split()[-1] == "on"


def test_an_old_translation_is_not_shown_under_a_new_text(page: Any, page_log: PageLog) -> None:
    translate(page, SENTENCE)
    page.route(
        "**/translate",
        lambda route: route.fulfill(status=429, json={"error": "The server is busy."}),
    )
    page.fill("#text", "a dog walks")
    assert (
        page.evaluate("document.getElementById('output').inert")
        and not page.locator("#copy").is_visible()
    )
    page.wait_for_selector("#error:not([hidden])")
    assert page.locator("#output").text_content() == ""
    page_log.expected = "429"


def test_languages_are_detected_and_swapped(page: Any) -> None:
    page.select_option("#from", "auto")
    served = translate(page, "the cat sleeps in a house and the dog is here")
    assert (
        page.inner_text("#detected")
        == page.locator("#from option").first.text_content()
        == "English (detected)"
    )
    page.select_option("#interface", "fr")
    served = translate(page, "the cat sleeps in the house and the dog is here")
    assert page.inner_text("#detected") == "Anglais (détecté)"
    page.click("#swap")
    assert (page.input_value("#from"), page.input_value("#to"), page.input_value("#text")) == (
        "de",
        "en",
        served,
    )


def test_a_copied_text_that_is_perhaps_in_the_target_language_gets_another_target_once(
    page: Any,
) -> None:
    targets: list[str] = []

    def unsure(route: Any) -> None:
        target = route.request.post_data_json["target"]
        targets.append(target)
        answer = route.fetch()
        guesses = [{"confidence": 44, "language": "fr"}, {"confidence": 42, "language": target}]
        body = answer.json() | {
            "translatedText": "How are you?",
            "detectedLanguage": guesses[0] | {"alternatives": guesses[1:]},
        }
        route.fulfill(response=answer, json=body)

    page.select_option("#from", "auto")
    page.route("**/translate", unsure)
    page.fill("#text", "How are you?")
    page.wait_for_selector("#detected >> text=French")
    assert targets == ["de", "en"] and page.input_value("#to") == "en"


def test_an_alternative_is_taken_over(page: Any) -> None:
    before = translate(page, SENTENCE)
    page.click("#others")
    page.wait_for_selector("#alternatives button")
    other = page.inner_text("#alternatives button >> nth=0")
    page.keyboard.press("Enter")
    assert page.locator("#output").text_content() == other != before
    page.wait_for_selector(TRANSLATED)
    assert page.locator("#output").text_content() == other


def test_the_history_is_kept_on_the_device(page: Any) -> None:
    translate(page, SENTENCE)
    page.click("#copy")
    translate(page, "a dog walks")
    page.click("#copy")
    page.reload()
    page.wait_for_selector("#memory:not([hidden])")
    page.focus("#memory summary")
    # a click could miss: the page moves while the text is translated again
    page.keyboard.press("Enter")
    page.wait_for_selector("#memory[open]")
    assert page.locator("#entries li").count() == 2
    page.click("#entries li >> nth=1 >> .entry")
    assert page.input_value("#text") == SENTENCE
    page.wait_for_selector(TRANSLATED)
    page.click("#entries li >> nth=0 >> button >> nth=1")
    assert page.locator("#entries li").count() == 1
    page.click("#forget")
    page.wait_for_timeout(2_000)  # what is shown is remembered after a second and a half
    assert page.evaluate("localStorage.getItem('translations')") == "[]"


def test_files_are_chosen_or_dropped_and_downloaded(
    page: Any, live: LiveServer, tmp_path: Path
) -> None:
    served = live.post("/translate", {"q": SENTENCE, "source": "en", "target": "de"}).json()[
        "translatedText"
    ]
    file = tmp_path / "letter.txt"
    file.write_text(SENTENCE)
    page.set_input_files("#file", str(file))
    with page.expect_download() as download:
        page.click("#files a >> text=letter")
    assert Path(download.value.path()).read_text().strip() == served
    page.evaluate(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], "note.txt"));
            data.items.add(new File([text], "virus.exe"));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        SENTENCE,
    )
    page.wait_for_selector("#files a >> text=note")
    assert "virus.exe" in page.inner_text("#files .bad")


def test_the_interface_has_four_languages_and_fits_a_small_screen(
    open_page: OpenPage, live: LiveServer
) -> None:
    page = opened(open_page(viewport={"width": 320, "height": 640}, locale="de-DE"), live)
    assert (
        page.get_attribute("html", "lang") == "de"
        and page.inner_text("#choose") == "Datei übersetzen"
    )
    translate(page, f"{SENTENCE} {'x' * 60}")
    for language in INTERFACES:
        page.select_option("#interface", language)
        assert page.get_attribute("html", "lang") == language
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.set_viewport_size({"width": 360, "height": 780})
    tops = "nodes => nodes.map((node) => node.getBoundingClientRect().top)"
    for language in INTERFACES:
        page.select_option("#interface", language)
        first, second = page.locator(".top #interface, .top #theme").evaluate_all(tops)
        assert abs(first - second) < 20  # in one line
    page.set_viewport_size({"width": 3840, "height": 2160})
    assert page.locator("#translate").bounding_box()["width"] > 1800


def test_right_to_left_text_runs_from_right_to_left(page: Any) -> None:
    page.fill("#text", "שלום עולם")
    assert page.evaluate("document.getElementById('text').matches(':dir(rtl)')")
    page.wait_for_selector("#output:not(.busy):dir(rtl) .s")


def test_a_text_typed_before_the_page_is_ready_is_translated(
    open_page: OpenPage, live: LiveServer, page_log: PageLog
) -> None:
    page = open_page()
    page.route(
        "**/languages",
        lambda route: route.fulfill(status=503, json={"error": "The models are loading."}),
    )
    page.goto(live.url)
    page.fill("#text", "The cat sleeps.")
    page.wait_for_selector("#error >> text=loading")
    page.unroute("**/languages")
    page.fill("#text", "The cat sleeps here.")
    page.wait_for_selector(TRANSLATED)
    assert page.input_value("#text") == "The cat sleeps here."
    assert not page.locator("#error").is_visible()
    page_log.expected = "503"


def test_links_of_other_pages_are_understood(open_page: OpenPage, live: LiveServer) -> None:
    page = open_page()
    page.goto(f"{live.url}/?source=en&target=fr&q=the+cat")
    page.wait_for_selector(TRANSLATED)
    assert (page.input_value("#text"), page.input_value("#to")) == ("the cat", "fr")
    page.click("#inside")
    page.wait_for_selector("#panel-attention canvas")
    assert page.input_value("#text") == "the cat" and "/attention#" in page.url
    page.goto(f"{live.url}/#q=a+dog&source=en&target=de&tab=decoding&kind=cross")
    page.wait_for_selector("#tab-decoding[aria-selected=true]")
    assert page.url.startswith(live.url + "/attention#")
