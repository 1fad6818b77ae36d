"""API keys of a data folder, for tests that are not in an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from server.store.keys import Key, Keys
from server.store.sqlite import SQLiteStore

Result = TypeVar("Result")


class KeyFile:
    """The keys of a data folder, as `attentive keys` changes them while a server runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, name: str, **options) -> tuple[str, Key]:
        return self._run(lambda keys: keys.create(name, **options))

    def revoke(self, id: str) -> Key | None:
        return self._run(lambda keys: keys.change(id, revoked=time.time()))

    def all(self) -> list[Key]:
        return self._run(lambda keys: keys.all())

    def _run(self, operation: Callable[[Keys], Awaitable[Result]]) -> Result:
        async def act() -> Result:
            store = SQLiteStore(self.folder)
            try:
                return await operation(Keys(store))
            finally:
                await store.stop()

        with ThreadPoolExecutor(1) as thread:  # the caller may be in an event loop
            return thread.submit(asyncio.run, act()).result()
