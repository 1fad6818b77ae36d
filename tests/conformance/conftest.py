"""Servers for the client libraries: one with random weights and one with the shipped model."""

from __future__ import annotations

import pytest

from tests.support.servers.live import LiveServer


@pytest.fixture(params=["live", "shipped"])
def server(request: pytest.FixtureRequest) -> LiveServer:
    found: LiveServer = request.getfixturevalue(request.param)
    return found
