"""The layer between the server and the routes."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from server.api.middleware.entrance import Exchange


@pytest.mark.parametrize(
    ("path", "body"),
    [("/translate", {"q": "a house", "source": "en", "target": "de"}), ("/translate", {"q": ""}), ("/nowhere", {})],
)
def test_an_ended_request_is_freed_without_the_collector(
    serve: Callable[..., TestClient], path: str, body: dict[str, str]
) -> None:
    # What refers to itself waits for the collector, under load for minutes.
    client = serve()
    client.post(path, json=body)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            client.post(path, json=body)
        assert sum(type(each) is Exchange for each in gc.get_objects()) == 0
    finally:
        gc.enable()
