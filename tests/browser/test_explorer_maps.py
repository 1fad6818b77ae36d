"""The maps of the explorer: long sentences, one colour scale, heads side by side, roles."""

from __future__ import annotations

import re
from typing import Any

from tests.browser.conftest import translate
from tests.support.servers.live import WORDS


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
