"""A server in a thread of the test process, with a fake engine, on a real port."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from server.cli.serve import Server, listener, server_config
from server.config import Settings
from server.services import Services
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import FakeEngine, fake_catalog


@contextmanager
def running(
    engine: FakeEngine, catalog: ModelCatalog | None = None, **settings: Any
) -> Iterator[tuple[str, Server]]:
    """Runs a server on a free port in a separate thread. Yields its URL and the server."""
    chosen = Settings(port=0, **{"grace_seconds": 10, **settings})
    services = Services(chosen, engine, catalog or fake_catalog())
    config = server_config(chosen, services)
    with listener(chosen) as bound:
        server = Server(config, services, "http://localhost")
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        wait_for(lambda: server.started and services.readiness == "ready")
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}", server
        finally:
            server.should_exit = True
            thread.join(60)
    assert not thread.is_alive()
    assert engine.stopped


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits until the condition is true, and asks less often after a while. Raises AssertionError
    after `seconds`."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds
        time.sleep(min(0.2, 0.002 + waited / 20))
