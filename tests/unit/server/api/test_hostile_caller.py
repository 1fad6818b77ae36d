"""One caller's requests compute without end in their threads; another one is answered."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.api.app import create_app
from server.config import Settings
from server.services import Services
from tests.support.engine.fake_engine import FakeEngine, fake_catalog

FLOOD = 60
"""Requests of the hostile caller: more than a pool has threads."""
LONG = "Hello you. " * 200
PAIR = {"source": "en", "target": "de"}
ATTENTION = PAIR | {"q": "Hello you", "translation": "Hallo Du", "kind": "cross"}
KINDS: dict[str, dict[str, Any]] = {
    **{
        format: {"url": "/attention", "params": ATTENTION | {"format": format}}
        for format in ("json", "npz", "svg", "png", "pdf", "html")
    },
    "card": {"url": "/attention", "params": ATTENTION | {"format": "png", "view": "card"}},
    "tensors": {"url": "/attention/tensors", "params": PAIR | {"q": "Hi", "translation": "Du"}},
    "model": {"url": "/model", "params": PAIR},
    "positions": {"url": "/positions", "params": PAIR},
    "text": {"url": "/translate", "json": PAIR | {"q": LONG}},
    "detect": {"url": "/detect", "json": {"q": LONG}},
    "Google": {"url": "/language/translate/v2/detect", "json": {"q": [LONG]}},
    "hcfy": {"url": "/hcfy", "json": {"text": LONG, "destination": ["de", "fr"]}},
}
IS_HOSTILE: ContextVar[bool] = ContextVar("is_hostile", default=False)


@pytest.mark.parametrize("seed", range(4))
async def test_another_caller_waits_for_no_work_of_a_hostile_one(
    seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rng, may_end, begun = random.Random(seed), threading.Event(), list[object]()
    submit, submitted = ThreadPoolExecutor.submit, asyncio.Event()

    def submit_endless(
        pool: ThreadPoolExecutor, function: Callable[..., Any], *arguments: Any
    ) -> Future[Any]:
        def endless() -> Any:
            begun.append(function)
            may_end.wait(60)
            return function(*arguments)

        if IS_HOSTILE.get():
            submitted.set()
            return submit(pool, endless)
        return submit(pool, function, *arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_endless)
    settings = Settings()
    services = Services(settings, FakeEngine(), fake_catalog())
    app = create_app(settings, services)
    await services.start()
    await services.loaded()

    async def answered(address: str, kind: str) -> int:
        IS_HOSTILE.set(address == "192.0.2.1")
        request = KINDS[kind]
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            answer = await client.request("POST" if "json" in request else "GET", **request)
        return answer.status_code

    flood = [
        asyncio.create_task(answered("192.0.2.1", kind))
        for kind in rng.choices(list(KINDS), k=FLOOD)
    ]
    await submitted.wait()
    try:
        async with asyncio.timeout(30):
            for kind in rng.sample(list(KINDS), k=len(KINDS)):
                status = await answered("192.0.2.2", kind)
                assert status == (503 if kind in ("model", "positions") else 200), kind
        assert len(begun) == 1 and not any(task.done() for task in flood)
    finally:
        may_end.set()
        await asyncio.gather(*flood, return_exceptions=True)
        await services.stop()
