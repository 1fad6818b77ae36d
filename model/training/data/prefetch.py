"""Iteration in a background thread, so that the device does not wait for the next batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Empty, Full, Queue
from types import TracebackType
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")
_POLL_SECONDS = 0.1


class Prefetch(Generic[Item]):
    """Iterates over `items` in a background thread, up to `depth` items ahead.

    An exception of `items` is raised by `next`. Leaving the context ends the thread.
    """

    def __init__(self, items: Iterator[Item], depth: int) -> None:
        self._items = items
        self._queue: Queue[Item | BaseException] = Queue(depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="batches", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        while True:
            try:
                item = self._queue.get(timeout=_POLL_SECONDS)
            except Empty:
                if not self._thread.is_alive() and self._queue.empty():
                    raise StopIteration from None
                continue
            if isinstance(item, BaseException):
                raise item
            return item

    def _fill(self) -> None:
        try:
            for item in self._items:
                self._put(item)
                if self._stop.is_set():
                    return
        except Exception as error:  # noqa: BLE001 - raised again by __next__
            self._put(error)

    def _put(self, item: Item | BaseException) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except Full:
                continue
            return
