"""Servers for the client libraries: one with random weights and one with the default model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.live import ROOT, LiveServer, live_server


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the models in `weights/`."""
    weights = ROOT / "weights"
    if not any(weights.glob("*/config.json")) and not (weights / "config.json").exists():
        pytest.skip("no weights in this checkout")
    with live_server(weights, tmp_path_factory.mktemp("log") / "shipped.log") as server:
        yield server


@pytest.fixture(params=["live", "shipped"])
def server(request: pytest.FixtureRequest) -> LiveServer:
    found: LiveServer = request.getfixturevalue(request.param)
    return found
