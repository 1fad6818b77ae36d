"""What tests of every room share: a tiny model folder, and a real server on it. Both are made once and only if asked
for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.live import LiveServer, live_server, tiny_model

# No test asserts how long something takes: the machine may be busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A weights folder with one model of random weights, English to German and French."""
    folder = tmp_path_factory.mktemp("weights")
    tiny_model(folder / "tiny")
    return folder


@pytest.fixture(scope="session")
def live(tiny_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server in processes of its own, in float32 so that numbers can be compared."""
    log = tmp_path_factory.mktemp("log") / "server.log"
    with live_server(tiny_weights, log, ("--dtype", "float32")) as server:
        yield server
