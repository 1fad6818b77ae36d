"""Servers that download the models of --models, from a list of Firefox's models on 127.0.0.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.config import Settings
from server.models.discovery import find_served
from server.services import Services
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import FakeEngine
from tests.support.servers.fake_firefox_list import MODEL, PublishedModels
from tests.support.servers.in_process import wait_for
from tests.support.servers.live import LiveServer, live_server

ASK = {"q": "Hello", "source": "en", "target": "it"}


@pytest.fixture
def published(tmp_path: Path) -> Iterator[PublishedModels]:
    (tmp_path / "served").mkdir()
    served = PublishedModels(tmp_path / "served")
    served.models["en-it"] = [served.entry | {"targetLanguage": "it"}]
    yield served
    served.close()


def pulls(server: LiveServer) -> list[dict]:
    return server.get("/ready").json()["pulls"]


@pytest.mark.slow
def test_two_servers_on_one_folder_serve_a_model_after_failures_and_without_a_network(
    published: PublishedModels, tiny_weights: Path, tmp_path: Path
) -> None:
    file = published.path / f"{MODEL}.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])  # truncated
    flags = (
        "--models",
        "en-it",
        "--firefox-models",
        published.address,
        "--data",
        str(tmp_path / "data"),
    )
    with (
        live_server(tiny_weights, tmp_path / "one.log", flags) as first,
        live_server(tiny_weights, tmp_path / "two.log", flags) as second,
    ):
        assert first.post("/translate", ASK | {"target": "de"}).status == 200
        wait_for(lambda: any(pull["error"] for pull in pulls(first)), 240)
        assert first.post("/translate", ASK).status == 400
        assert not list((tmp_path / "data" / "models").glob("*/config.json"))
        file.write_bytes(whole)
        for server in (first, second):
            wait_for(lambda server=server: not pulls(server), 240)
            assert server.post("/translate", ASK | {"details": True}).json()["details"]["route"][0][
                "model"
            ] == ("firefox-en-it")
        assert first.get("/languages").json()[0]["scores"]["it"] == {"bleu": 40.02, "comet": 0.8651}
    published.close()
    settings = Settings(weights=tiny_weights, data=tmp_path / "data", models="en-it")
    models, errors = find_served(settings)
    restarted = Services(settings, FakeEngine(), ModelCatalog(models))
    assert restarted.pulls.missing == [] and not errors
