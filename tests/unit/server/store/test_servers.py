"""Two servers with one Redis: everything works through either server, and translations go on without Redis."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from server.store.history import new_id
from server.store.redis import FAILURES, RedisStore
from tests.support.servers.in_process import wait_for
from tests.support.servers.ports import free_port
from tests.unit.server.conftest import running_redis

HELLO = {"q": "Hello", "source": "en", "target": "de"}
GLOSSARY = {"name": "x", "source_lang": "EN", "target_lang": "DE", "entries": "Hello\tServus", "entries_format": "tsv"}


def state_of(client: TestClient) -> RedisStore:
    return client.app.state.services.state


def translate(client: TestClient, **options: object) -> int:
    return client.post("/translate", json=HELLO | options).status_code


def metric(client: TestClient, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


@pytest.mark.slow
def test_an_outage_leaves_translations_and_ends_by_itself(serve, tmp_path):
    port = free_port()
    servers = [serve(state=f"redis://127.0.0.1:{port}") for _ in range(2)]

    def answers(client: TestClient) -> list[int]:
        return [
            client.get("/attention", params={"id": new_id(1_000_000)}).status_code,
            client.get("/v2/usage").status_code,
            client.get("/v2/glossaries").status_code,
            client.post("/v2/glossaries", json=GLOSSARY).status_code,
            translate(client, glossary="x"),
            translate(client, api_key="unknown"),
        ]

    def check_outage(client: TestClient) -> None:
        wait_for(lambda: not state_of(client).up)
        assert answers(client) == [503] * 6
        assert client.get("/v2/usage").headers["Retry-After"] == "1"
        wait_for(lambda: translate(client) == client.get("/ready").status_code == 200)
        assert metric(client, "attentive_state_up") == 0
        assert metric(client, "attentive_state_errors_total") >= FAILURES

    def works(client: TestClient) -> Callable[[], bool]:
        return lambda: answers(client) == [410, 200, 200, 201, 404, 200] and metric(client, "attentive_state_up") == 1

    for client in servers:
        check_outage(client)
    for _ in range(2):
        with running_redis(tmp_path, port) as redis:
            for client in servers:
                wait_for(works(client))
            redis.kill()
        for client in servers:
            wait_for(lambda client=client: not state_of(client).up)
            assert translate(client) == client.get("/ready").status_code == 200
            assert answers(client)[:5] == [503] * 5
            assert answers(client)[5] == 200  # it was known that there are no keys
