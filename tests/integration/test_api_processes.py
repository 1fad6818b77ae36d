"""Three API processes before one worker are one server: of state there is one, and a killed process
takes only its own requests with it."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.servers.in_process import wait_for
from tests.support.servers.live import ROOT, LiveServer, live_server, tiny_model

PROCESSES, LIMIT, CLIENTS = 3, 20, 6


class Client:
    """One connection that stays open, and so one of the processes, in turns."""

    def __init__(self, server: LiveServer) -> None:
        self._address = server.url.partition("//")[2]
        self.connection = http.client.HTTPConnection(self._address, timeout=60)
        self.connection.connect()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data, {"Content-Type": "application/json", **headers})
        answer = self.connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()

    def translate(self, text: str, **headers: str) -> tuple[int, Any]:
        return self.ask(
            "POST", "/translate", {"q": text, "source": "en", "target": "de"}, **headers
        )


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    tiny_model(folder / "first")
    return folder


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    data = tmp_path_factory.mktemp("data")
    command = [sys.executable, "-m", "server", "keys", "create", "limited", "--data", str(data)]
    made = subprocess.run(
        [*command, f"--requests-per-minute={LIMIT}"], cwd=ROOT, check=True, capture_output=True
    )
    return data, next(word for word in made.stdout.decode().split() if word.startswith("atk_"))


@pytest.fixture(scope="module")
def server(
    weights: Path, secret: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    flags = [
        "--api-processes",
        str(PROCESSES),
        "--data",
        str(secret[0]),
        "--admin-key",
        "admin",
        "--threads",
        "1",
    ]
    with live_server(weights, tmp_path_factory.mktemp("log") / "log", flags) as made:
        yield made
        everyone = psutil.Process(made.process.pid).children(recursive=True)
        assert len(everyone) == PROCESSES + 2  # the leader and its worker
    assert made.process.returncode == 0
    assert not [each for each in everyone if each.is_running()]


@pytest.fixture
def clients(server: LiveServer) -> Iterator[list[Client]]:
    made = [Client(server) for _ in range(CLIENTS)]
    yield made
    for client in made:
        client.connection.close()


def members(server: LiveServer) -> dict[int, int]:
    """Returns the connections of each API process."""
    children = psutil.Process(server.process.pid).children()
    port = int(server.url.rpartition(":")[2])
    found = {}
    for child in [
        child
        for child in children
        if child.status() != psutil.STATUS_ZOMBIE and not child.children()
    ]:
        found[child.pid] = sum(
            each.laddr.port == port for each in child.net_connections("tcp") if each.raddr
        )
    return found


def total(metrics: str, name: str) -> float:
    return sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith(name))


def test_connections_are_spread_evenly(server):
    opened = [Client(server) for _ in range(60)]
    try:
        wait_for(lambda: sum(members(server).values()) >= 60)
        counts = members(server).values()
        assert len(counts) == PROCESSES and max(counts) - min(counts) <= 2
    finally:
        for client in opened:
            client.connection.close()


def test_every_process_knows_every_translation_within_a_second(clients):
    ids = [
        client.translate(f"the house {number}")[1]["id"] for number, client in enumerate(clients)
    ]
    for id in ids:
        for client in clients:
            status, body = client.ask("GET", f"/attention?id={id}")
            assert status == 200, body


def test_the_limit_of_a_key_is_one_over_all_processes(clients, secret):
    header = {"Authorization": f"Bearer {secret[1]}"}
    statuses = [
        clients[turn % CLIENTS].translate("a dog", **header)[0] for turn in range(LIMIT + 10)
    ]
    if statuses.count(200) > LIMIT:  # a window of a minute ended within
        statuses = [
            clients[turn % CLIENTS].translate("a dog", **header)[0] for turn in range(LIMIT + 10)
        ]
    assert statuses.count(429) >= 10 and statuses.count(200) <= LIMIT


def test_a_reload_on_one_process_is_one_on_all(clients, weights):
    shutil.copytree(weights / "first", weights / "second")
    card = weights / "second" / "config.json"
    card.write_text(card.read_text().replace('"first"', '"second"'))
    status, answer = clients[0].ask("POST", "/admin/reload", {}, Authorization="Bearer admin")
    assert (status, answer["added"]) == (200, ["second"])
    for client in clients:
        assert client.ask("GET", "/ready")[1]["models"] == ["first", "second"]
        assert (
            client.ask(
                "POST",
                "/translate",
                {"q": "a cat", "source": "en", "target": "de", "model": "second"},
            )[0]
            == 200
        )


def test_a_killed_process_takes_only_its_own_requests_with_it(server, clients):
    def counted() -> float:
        with_scrape = clients[0].ask("GET", "/metrics")[1]
        return total(with_scrape, 'attentive_http_requests_total{method="POST",route="/translate"')

    before = counted()
    ended, answered, failed = threading.Event(), [0] * CLIENTS, [0] * CLIENTS

    def load(number: int) -> None:
        client = clients[number]
        while not ended.is_set() and not failed[number]:
            try:
                status, _ = client.translate(f"the train {number} {answered[number]}")
                assert status == 200
                answered[number] += 1
            except (OSError, http.client.HTTPException, AssertionError):
                failed[number] += 1

    threads = [threading.Thread(target=load, args=(number,)) for number in range(1, CLIENTS)]
    for thread in threads:
        thread.start()
    # The process of the first client stays: it is asked for the metrics.
    port = clients[0].connection.sock.getsockname()[1]
    victims = [pid for pid in members(server) if port not in peers(pid)]
    own = len(peers(victims[0]))
    wait_for(lambda: min(answered[1:]) >= 3)
    psutil.Process(victims[0]).kill()
    seen = list(answered)
    wait_for(lambda: all(failed[n] or answered[n] >= seen[n] + 3 for n in range(1, CLIENTS)))
    ended.set()
    for thread in threads:
        thread.join(60)
    assert sum(failed) == own
    wait_for(lambda: len(members(server)) == PROCESSES)
    least = before + sum(answered)
    assert least <= counted() <= least + own, (
        "of the killed process no counted request is forgotten"
    )
    fresh = Client(server)
    assert fresh.translate("the bread")[0] == 200
    fresh.connection.close()


def peers(pid: int) -> set[int]:
    return {each.raddr.port for each in psutil.Process(pid).net_connections("tcp") if each.raddr}
