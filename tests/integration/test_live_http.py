"""Behaviour that needs a real connection: disconnecting clients, concurrent requests, stopping
servers. The engine is a fake."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from server.cli.serve import LISTENERS, listener
from server.config import Settings
from tests.support.engine.fake_engine import FakeEngine
from tests.support.servers.in_process import running, wait_for

BODY = {"q": "Hello world", "source": "en", "target": "de"}


def post(url: str, **fields: str) -> httpx.Response:
    """Sends a request. The machine may be busy, so it waits longer than httpx does by default."""
    return httpx.post(url + "/translate", json=BODY | fields, timeout=60)


def raw_request(url: str, body: dict) -> socket.socket:
    """Sends a complete request and leaves the connection open."""
    host, port = url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    send(connection, body)
    return connection


def send(connection: socket.socket, body: dict) -> None:
    """Sends a complete request."""
    data = json.dumps(body).encode()
    head = (
        "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
        f"{len(data)}\r\n\r\n"
    )
    connection.sendall(head.encode() + data)


def test_a_disconnected_client_cancels_its_jobs():
    engine = FakeEngine(delay=30)
    with running(engine) as (url, server):
        connection = raw_request(url, BODY | {"q": ["one", "two", "three"]})
        wait_for(lambda: len(engine.submitted) == 3)
        connection.close()
        wait_for(lambda: engine.cancelled == 3)
        services = server._services
        wait_for(lambda: services.translator.admission.requests == 0)
        metrics = httpx.get(url + "/metrics", timeout=60).text
    assert "attentive_requests_cancelled_total 3.0" in metrics
    assert 'status="499"' in metrics


def test_no_task_remains_after_a_response():
    with running(FakeEngine()) as (url, server), httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/translate", json=BODY).status_code == 200
        loop = server.servers[0].get_loop()
        before = len(asyncio.all_tasks(loop))
        for _ in range(4):
            assert client.post("/translate", json=BODY).status_code == 200
        wait_for(lambda: len(asyncio.all_tasks(loop)) <= before)


def test_identical_requests_in_flight_are_computed_once():
    engine = FakeEngine()
    engine.gate = threading.Event()
    with running(engine, cache_bytes=0) as (url, server), ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(post, url) for _ in range(6)]
        wait_for(lambda: server._services.translator.admission.requests == 6)
        engine.gate.set()
        answers = [one.result().json() for one in waiting]
        assert {answer["translatedText"] for answer in answers} == {"dlrow olleH"}
        assert len({answer["id"] for answer in answers}) == 6
        assert len(engine.submitted) == 1
        post(url)
        assert len(engine.submitted) == 2


def test_one_of_two_identical_requests_may_be_cancelled():
    engine = FakeEngine()
    engine.gate = threading.Event()
    with running(engine) as (url, server), ThreadPoolExecutor(1) as pool:
        admission = server._services.translator.admission
        connection = raw_request(url, BODY)
        wait_for(lambda: admission.requests == 1)
        staying = pool.submit(post, url)
        wait_for(lambda: admission.requests == 2)
        connection.close()
        wait_for(lambda: admission.requests == 1)
        engine.gate.set()
        assert staying.result().json()["translatedText"] == "dlrow olleH"
    assert (len(engine.submitted), engine.cancelled) == (1, 0)


def test_a_draining_server_says_so_and_still_accepts_requests():
    with running(FakeEngine(), drain_seconds=600) as (url, server):
        with httpx.Client(timeout=60) as client:
            assert client.get(url + "/ready").status_code == 200
            server.handle_exit(signal.SIGTERM, None)
            assert (
                client.get(url + "/ready").status_code,
                client.get(url + "/health").status_code,
            ) == (503, 200)
            assert client.get(url + "/ready").json()["status"] == "draining"
            answer = client.post(url + "/translate", json=BODY)
            assert answer.json()["translatedText"] == "dlrow olleH"
            wait_for(lambda: client.get(url + "/health").headers.get("connection") == "close")
        assert not server.should_exit


@pytest.mark.parametrize("signals", [[signal.SIGTERM, signal.SIGTERM], [signal.SIGINT]])
def test_a_second_signal_and_ctrl_c_do_not_wait_for_load_balancers(signals):
    with running(FakeEngine(), drain_seconds=600) as (_, server):
        for number in signals:
            server.handle_exit(number, None)
        wait_for(lambda: server.should_exit)


def test_the_drain_time_ends_the_server():
    with running(FakeEngine(), drain_seconds=0.2) as (_, server):
        server.handle_exit(signal.SIGTERM, None)
        wait_for(lambda: server.should_exit)


def test_requests_sent_before_the_signal_are_answered_though_they_were_not_read():
    with running(FakeEngine()) as (url, server):
        kept_alive = raw_request(url, BODY)
        answer = b""
        while not answer.endswith(b"}"):  # the head may come before the body
            answer += kept_alive.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200")
        busy, free = threading.Event(), threading.Event()

        def block() -> None:
            busy.set()
            free.wait(60)

        server.servers[0].get_loop().call_soon_threadsafe(block)
        busy.wait()
        send(kept_alive, BODY)
        new = [raw_request(url, BODY) for _ in range(3 * LISTENERS)]
        time.sleep(0.2)  # the next tick of uvicorn is due
        server.handle_exit(signal.SIGTERM, None)
        free.set()
        for connection in (kept_alive, *new):
            head = connection.recv(65_536)
            assert head.startswith(b"HTTP/1.1 200") and b"connection: close" in head
            connection.close()


def test_requests_in_flight_after_the_grace_time_get_503():
    engine = FakeEngine(delay=60)
    with ThreadPoolExecutor(1) as pool:
        with running(engine, grace_seconds=1) as (url, _):
            waiting = pool.submit(post, url)
            wait_for(lambda: len(engine.submitted) == 1)
        answer = waiting.result()
    assert answer.status_code == 503
    assert answer.json() == {"error": "The server is shutting down."}
    assert int(answer.headers["retry-after"]) >= 1


def test_a_port_in_use_is_an_error_of_one_sentence():
    with listener(Settings(port=0)) as first:
        first.listen()
        with pytest.raises(ValueError, match="cannot listen"):
            listener(Settings(port=first.getsockname()[1]))
