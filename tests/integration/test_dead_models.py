"""A server with a damaged model beside one of the same pair: real folders, files and workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.servers.in_process import wait_for
from tests.support.servers.live import LiveServer, live_server, tiny_model

ASK = {"q": "Hello", "source": "en", "target": "de", "details": True}


def route(server: LiveServer, **fields: str) -> str:
    answer = server.post("/translate", ASK | {"q": f"Hello {time.monotonic()}"} | fields)
    return (
        answer.json()["details"]["route"][0]["model"]
        if answer.status == 200
        else str(answer.status)
    )


@pytest.mark.slow
def test_a_pair_outlives_its_first_model_and_gets_it_back(tmp_path: Path) -> None:
    for name in ("first", "second"):
        tiny_model(tmp_path / "weights" / name)
    file = tmp_path / "weights" / "first" / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    flags = ("--prefer", "first", "--model-idle-seconds", "1")
    with live_server(tmp_path / "weights", tmp_path / "log", flags) as server:
        assert route(server) == "second" and route(server, model="first") == "503"
        assert list(server.get("/ready").json()["errors"]) == ["first"]
        file.write_bytes(whole)
        wait_for(lambda: route(server) == "first", 120)
        assert server.get("/ready").json()["errors"] == {}
        file.write_bytes(whole[:1000])
        # the next worker reads it again
        os.kill(server.get("/ready").json()["workers"][0]["pid"], signal.SIGKILL)
        wait_for(lambda: route(server) == "second", 120)
        file.write_bytes(whole)
        wait_for(lambda: route(server) == "first", 120)
        wait_for(lambda: not server.get("/ready").json()["models"], 120)  # idle
        file.unlink()
        assert route(server) == "second"
        assert server.get("/ready").status == 200
