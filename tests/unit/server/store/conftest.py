"""Fixtures: one test with each kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from server.store.interface import Store
from server.store.redis import RedisStore, connect
from server.store.sqlite import SQLiteStore


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    """Stops the store at the end of the block."""
    try:
        yield store
    finally:
        await store.stop()


@pytest.fixture(params=["file", "memory", "redis"])
def any_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[], AbstractAsyncContextManager[Store]]:
    """Returns a function that opens an empty store in the running event loop."""

    def start() -> AbstractAsyncContextManager[Store]:
        if request.param == "redis":
            return opened(RedisStore(connect(request.getfixturevalue("redis"))))
        return opened(SQLiteStore(tmp_path if request.param == "file" else None))

    return start
