"""A server in this process, on the fake worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient

from server.api.app import create_app
from server.config import Settings
from server.services import Services
from tests.server.fakes import FakeEngine, fake_catalog


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def serve(engine: FakeEngine) -> Iterator[Callable[..., TestClient]]:
    """Makes a client of a running server with the given settings."""
    clients: list[TestClient] = []

    def start(catalog=None, **settings) -> TestClient:
        chosen = Settings(**settings)
        client = TestClient(create_app(chosen, Services(chosen, engine, catalog or fake_catalog())))
        clients.append(client)
        return client.__enter__()

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()
