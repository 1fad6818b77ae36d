"""The model of the chosen languages on the translator, and the download of a stronger one."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import INTERFACES, OpenPage, PageLog, Violations, opened
from tests.support.servers.live import LiveServer

STRONGER = {
    "name": "firefox/en-de",
    "source": "en",
    "target": "de",
    "publisher": "Mozilla",
    "license": "MPL-2.0",
}
FACTS = {"bytes": 31_561_787, "scores": {"bleu": 40.0, "comet": 0.8651}}


def pull(state: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": "firefox/en-de",
        "state": state,
        "file": "",
        "bytes": 0,
        "total": 0,
        "error": "",
    } | fields


def test_a_stronger_model_is_offered_followed_and_used(
    open_page: OpenPage, live: LiveServer, page_log: PageLog, violations: Violations
) -> None:
    page_log.expected = "403"
    page = open_page(viewport={"width": 1280, "height": 900})
    pulls: list[dict[str, Any]] = []
    allowed = True

    def manage(route: Any) -> None:
        if route.request.method == "POST" and not allowed:
            route.fulfill(status=403, json={"error": "Send the key of --admin-key."})
            return
        if route.request.method == "POST":
            assert route.request.post_data_json == {"name": "firefox/en-de"}
            pulls[:] = [pull("downloading", bytes=4_000_000, total=16_000_000)]
            route.fulfill(status=202, json=pulls[0])
            return
        route.fulfill(
            json={
                "pulled": [],
                "pulls": [],
                "available": [STRONGER | FACTS],
                "stronger": STRONGER["name"],
            }
        )

    def state(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"pulls": pulls})

    page.route("**/admin/models*", manage)
    page.route("**/ready", state)
    opened(page, live)
    offer = page.locator("#model button")
    offer.wait_for()
    assert "tiny" in page.inner_text("#model")
    seen = set()
    for language in INTERFACES:
        page.select_option("#interface", language)
        assert "32 MB, Mozilla, MPL-2.0" in offer.inner_text()
        seen.add(offer.inner_text())
    assert len(seen) == len(INTERFACES)
    page.select_option("#interface", "en")
    allowed = False
    offer.click()
    page.wait_for_selector("#model [role=alert]")
    allowed = True
    offer.click()
    page.wait_for_selector("#pulls progress[value='4000000'][max='16000000']")
    assert "4 MB / 16 MB" in page.inner_text("#pulls") and not offer.count()
    assert violations(page) == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    pulls[:] = [pull("failed", error="The disk is full.")]
    page.wait_for_selector("#pulls [role=alert]")
    assert "The disk is full." in page.inner_text("#pulls") and offer.is_visible()
    pulls[:] = [pull("importing")]
    page.wait_for_selector("#pulls progress:not([value])")
    pulls.clear()
    page.wait_for_selector("#pulls [role=status]")
    assert "firefox/en-de is ready." in page.inner_text("#pulls")
