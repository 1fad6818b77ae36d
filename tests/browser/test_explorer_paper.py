"""The chapters of "How it works" about the paper: order, figures 3 to 5."""

from __future__ import annotations

import re
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture
def chapters(explorer: Any) -> Any:
    explorer.click("#tab-works")
    explorer.wait_for_selector("#works-order :text('R²')")
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
