"""The explorer with a model whose decoder has a recurrence in place of self-attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import speaking_model
from tests.support.servers.live import LiveServer, live_server

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def live(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with a model of random weights with a recurrence."""
    folder = tmp_path_factory.mktemp("models")
    speaking_model(folder / "tiny", recurrence="ssru")
    with live_server(folder, folder / "server.log", ("--dtype", "float32")) as server:
        yield server


def test_the_forget_gates_stand_in_place_of_the_decoder_maps(explorer: Any) -> None:
    explorer.get_by_role("radio", name="Decoder").click()
    sync_api.expect(explorer.locator("#absent")).to_contain_text("recurren")
    explorer.get_by_role("img", name="Forget gates").press("ArrowRight")
    sync_api.expect(explorer.locator("#panel-attention .readout")).to_contain_text("keeps at")
    assert explorer.locator("#panel-attention .heat .queries span").all_text_contents() == [
        "layer 0",
        "layer 1",
    ]
    explorer.reload()
    sync_api.expect(explorer.locator("#absent")).to_be_visible()
    explorer.get_by_role("radio", name="Encoder").click()
    sync_api.expect(explorer.locator("#absent")).to_have_count(0)


def test_every_tab_works_without_decoder_maps(explorer: Any) -> None:
    explorer.get_by_role("radio", name="All heads").click()
    for tab, ready in (
        ("decoding", "svg .node.win"),
        ("heads", ".thumb"),
        ("works", ".numbers"),
        ("whynot", "#asked"),
    ):
        explorer.click(f"#tab-{tab}")
        sync_api.expect(explorer.locator(f"#panel-{tab} {ready}").first).to_be_visible()
    explorer.click("#tab-works")
    sync_api.expect(explorer.get_by_role("heading", name="The recurrence")).to_be_visible()
    assert explorer.locator("#error").is_hidden()
