"""`attentive serve` reports the steps of its start."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from server.cli.serve import announce, browser_url
from server.config import Settings
from server.services import Services
from tests.support.engine.fake_engine import FakeEngine, fake_catalog


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://localhost:8000"),
        ("0.0.0.0", "http://localhost:8000"),
        ("::", "http://localhost:8000"),
        ("192.0.2.7", "http://192.0.2.7:8000"),
        ("2001:db8::1", "http://[2001:db8::1]:8000"),
    ],
)
def test_the_address_is_one_for_a_browser(host, url):
    assert browser_url(host, 8000) == url


def started(engine: FakeEngine, caplog: pytest.LogCaptureFixture, **settings: Any) -> list[logging.LogRecord]:
    async def scenario() -> None:
        services = Services(Settings(**settings), engine, fake_catalog())
        await services.start()
        await announce(services, "http://localhost:8000")
        await services.stop()

    with caplog.at_level(logging.INFO, "server.cli.serve"):
        asyncio.run(scenario())
    return [record for record in caplog.records if record.name == "server.cli.serve"]


def test_the_log_says_when_translations_are_served_and_where(caplog):
    [record] = started(FakeEngine(), caplog)
    assert record.getMessage() == "ready: open http://localhost:8000 in a browser"
    assert vars(record)["models"] == "toy"


def test_the_log_says_that_no_model_was_loaded(caplog):
    engine = FakeEngine()
    engine.load_error = "The file is too short."
    [record] = started(engine, caplog)
    assert record.levelname == "ERROR" and "The file is too short." in record.getMessage()


def test_the_log_of_a_server_for_others_says_that_its_state_is_its_own(caplog, tmp_path):
    _, record = started(FakeEngine(), caplog, host="0.0.0.0")
    assert record.levelname == "WARNING" and "no API keys" in record.getMessage()
    caplog.clear()
    assert len(started(FakeEngine(), caplog, host="0.0.0.0", data=tmp_path)) == 1
