"""Fixtures: one test with each kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from server.store.interface import Store
from server.store.redis import RedisStore
from server.store.redis_connection import connect
from server.store.sqlite import SQLiteStore


@pytest.fixture(params=["file", "memory", "redis"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[Store], Awaitable[None]]], None]:
    """Returns a function that runs a scenario with an empty store."""

    def run(scenario: Callable[[Store], Awaitable[None]]) -> None:
        async def use() -> None:
            if request.param == "redis":
                store: Store = RedisStore(connect(request.getfixturevalue("redis")))
            else:
                store = SQLiteStore(tmp_path if request.param == "file" else None)
            try:
                await scenario(store)
            finally:
                await store.stop()

        asyncio.run(use())

    return run
