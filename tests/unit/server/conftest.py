"""Fixtures: a server in this process with a fake engine, and a Redis server."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from starlette.testclient import TestClient

from server.api.app import create_app
from server.config import Settings
from server.documents.reader_process import perform
from server.documents.service import Readers
from server.services import Services
from tests.support.engine.fake_engine import FakeEngine, fake_catalog
from tests.support.servers.keys import KeyFile
from tests.support.servers.ports import free_port


class InlineReaders(Readers):
    """Reads documents in this process."""

    async def run(self, task: dict[str, Any], caller: str, order: int) -> dict[str, Any]:
        return perform(**task)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def serve(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., TestClient]]:
    """Returns a function that starts a server with given settings and returns its client. Stores
    write more often than usual, so that tests wait less."""
    monkeypatch.setattr("server.store.interface.BEAT_SECONDS", 0.05)
    clients: list[TestClient] = []

    def start(catalog=None, **settings) -> TestClient:
        chosen = Settings(**settings)
        services = Services(chosen, engine, catalog or fake_catalog())
        services.documents.readers = InlineReaders()
        client = TestClient(create_app(chosen, services))
        clients.append(client)
        return client.__enter__()

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()


@pytest.fixture
def weights(tiny_weights: Path, tmp_path: Path) -> Path:
    """A copy of the test model, which the test may change."""
    shutil.copytree(tiny_weights, tmp_path / "weights")
    return tmp_path / "weights"


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    """The API keys in the temporary folder."""
    return KeyFile(tmp_path)


@contextmanager
def running_redis(folder: Path, port: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs an empty `redis-server` on a port and yields its process."""
    program = shutil.which("redis-server") or pytest.skip("redis-server is not installed")
    command = [
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            for line in process.stdout or ():
                if b"eady to accept connections" in line:
                    break
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers wait longer for Redis than usual, and for what another server writes to it, as the
    machine may be busy."""
    monkeypatch.setattr("server.store.redis.TIMEOUT_SECONDS", 10.0)
    monkeypatch.setattr("server.store.history.RECENT_SECONDS", 3.0)


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Starts a Redis server and returns its port."""
    port = free_port()
    with running_redis(tmp_path_factory.mktemp("redis"), port):
        yield port


@pytest.fixture
def redis(redis_port: int, patient: None) -> str:
    """Returns the address of an empty Redis server."""
    url = f"redis://127.0.0.1:{redis_port}"
    with redis_client.Redis.from_url(url, socket_timeout=60) as client:  # the machine may be busy
        client.flushall()
    return url
