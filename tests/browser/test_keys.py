"""The explorer on a server that requires an API key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import SENTENCE, OpenPage, PageLog, speaking_model, translate
from tests.support.servers.keys import KeyFile
from tests.support.servers.live import LiveServer, live_server


@pytest.fixture(scope="module")
def live(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("locked")
    speaking_model(folder / "weights" / "tiny")
    arguments = ("--data", str(folder / "data"), "--key-required", "true")
    with live_server(folder / "weights", folder / "server.log", arguments) as server:
        yield server


def test_the_page_prompts_for_the_key_once(
    open_page: OpenPage, live: LiveServer, page_log: PageLog
) -> None:
    secret, _ = KeyFile(Path(live.log.parent / "data")).create("browser")
    page = open_page()
    asked: list[str] = []

    def answer(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.accept(secret)

    page.on("dialog", answer)
    page.goto(live.url + "/attention")
    translate(page, SENTENCE)
    assert len(asked) == 1
    page.reload()
    translate(page, SENTENCE)
    assert len(asked) == 1
    page_log.expected = "403"
