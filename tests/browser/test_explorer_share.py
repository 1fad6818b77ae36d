"""Sharing a view of the explorer: the card, and the word in the URL."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from tests.browser.conftest import SENTENCE, OpenPage, PageLog, translate
from tests.support.servers.live import LiveServer

PICTURES = {
    "map": ("png", {"kind": "cross", "layer": "1", "head": "mean", "special": "0"}),
    "lines": ("pdf", {"kind": "cross", "layer": "1", "head": "0,1,2,3"}),
    "grid": ("svg", {"kind": "cross", "level": "word"}),
    "alignment": ("svg", {"query": "1"}),
    "card": ("png", {"query": "1"}),
}
FILES = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


def download(page: Any, view: str, **fields: str) -> tuple[bytes, dict[str, str]]:
    """Downloads a picture of a view and returns its bytes and the parameters of its request."""
    page.click("#inside [role=tabpanel]:not([hidden]) button >> text=Download")
    page.select_option("#picture [name=view]", view)
    for name, value in fields.items():
        field = page.locator(f"#picture [name={name}]")
        field.fill(value) if name in ("title", "dpi") else field.select_option(value)
    with page.expect_request("**/attention?*view=*") as asked, page.expect_download() as file:
        page.click("#picture button.primary")
    return Path(file.value.path()).read_bytes(), dict(parse_qsl(urlsplit(asked.value.url).query))


def test_every_view_is_downloaded_with_title_theme_resolution_and_heads_that_are_off(
    explorer: Any,
) -> None:
    explorer.evaluate("location.hash += '&off=cross.0.1'")
    explorer.wait_for_selector("#inside:not(.busy) #panel-attention canvas")
    for view, (format, expected) in PICTURES.items():
        explorer.hover("#output .w >> nth=1")
        chosen = {"title": "My title", "theme": "dark"} | ({"dpi": "72"} if format == "png" else {})
        content, sent = download(explorer, view, format=format, **chosen)
        assert content.startswith(FILES[format])
        wanted = expected | chosen | {"view": view, "format": format, "masked_heads": "cross.0.1"}
        assert wanted.items() <= sent.items()
        if format == "svg":
            for part in (b">My title<", b"without cross.0.1", b"#191b23"):
                assert part in content
        if view == "card":
            assert struct.unpack(">II", content[16:24]) == (900, 473)


def test_files_of_a_translation_that_the_server_no_longer_keeps(
    explorer: Any, page_log: PageLog
) -> None:
    forgotten = (
        '{"error": "This translation is no longer kept: the server remembers 1 translation for 1 '
        'second."}'
    )
    explorer.route("**/attention?id=*", lambda route: route.fulfill(status=410, body=forgotten))
    assert download(explorer, "card", format="svg")[0].startswith(b"<?xml")
    with explorer.expect_download() as file:
        explorer.click("#report")
    assert file.value.suggested_filename == "attention.html"
    assert explorer.locator("#error").is_hidden()
    page_log.messages.clear()  # the status 410


def test_a_link_marks_its_word(explorer: Any, open_page: OpenPage) -> None:
    explorer.hover("#output .w >> nth=1")
    marked = explorer.inner_text("#panel-attention .heat .queries .on")
    explorer.click("role=radio[name='Alignment']")
    explorer.wait_for_function("() => location.hash.includes('word=1')")
    link = explorer.url
    page = open_page()
    page.goto(link)
    page.wait_for_selector("#panel-attention .heat .queries .on")
    assert page.inner_text("#panel-attention .heat .queries .on") == marked
    assert "word=1" in page.url


def test_the_id_of_a_translation_opens_its_sentence(open_page: OpenPage, live: LiveServer) -> None:
    served = live.post(
        "/translate", {"q": f"a dog. {SENTENCE}", "source": "en", "target": "fr"}
    ).json()["id"]
    page = open_page()
    page.goto(f"{live.url}/attention?id={served}&sentence=1")
    page.wait_for_selector("#output:not(.busy) .w")
    assert (page.input_value("#text"), page.input_value("#to")) == (SENTENCE, "fr")
    assert "id=" not in page.url


@pytest.mark.parametrize(
    ("id", "sentence"),
    [
        ("unknown", "No translation has this id."),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "This translation is no longer kept: "),
    ],
)
def test_an_id_that_is_not_kept_is_named_and_the_page_works_on(
    open_page: OpenPage, live: LiveServer, page_log: PageLog, id: str, sentence: str
) -> None:
    page = open_page()
    page.goto(f"{live.url}/attention?id={id}")
    page.wait_for_selector(f"#error >> text={sentence}")
    assert page.inner_text("#error").count(".") == 1
    translate(page, SENTENCE)
    assert page.locator("#error").is_hidden()
    page_log.messages.clear()  # the status 404 or 410


@pytest.mark.parametrize(
    ("view", "shown", "hidden"),
    [
        ("", "#film .target .fw", "#inside"),
        ("&tab=attention&kind=encoder", "#panel-attention canvas >> nth=0", "#show"),
    ],
)
def test_a_page_of_an_allowed_origin_shows_one_view_in_a_frame(
    browser: Any, live: LiveServer, course: str, view: str, shown: str, hidden: str
) -> None:
    frame = embedded(browser, live, course, view)
    frame.wait_for_selector(shown)
    frame.wait_for_selector("#output:not(.busy) .w", state="attached")
    assert not frame.is_visible(hidden)
    assert (
        frame.locator(
            "header:visible, #translate:visible, nav:visible, footer:visible, h2:visible"
        ).count()
        == 0
    )
    assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "embed=1" in frame.url
    frame.page.context.close()


def test_a_page_of_another_origin_gets_no_frame(
    browser: Any, live: LiveServer, course: str
) -> None:
    frame = embedded(browser, live, course.replace("127.0.0.1", "localhost"), "")
    frame.wait_for_url("chrome-error:**", wait_until="commit")
    assert frame.locator("#film").count() == 0
    frame.page.context.close()


def embedded(browser: Any, live: LiveServer, origin: str, view: str) -> Any:
    """Opens a page of an origin that has a view in a frame, and returns the frame when it is
    loaded."""
    page = browser.new_context(reduced_motion="reduce").new_page()
    address = f"{live.url}/attention?source=en&target=de&q=the+cat+sleeps.&embed=1{view}"
    page.goto(f"{origin}/?{quote(address, safe='')}")
    return page.frames[1]
