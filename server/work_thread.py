"""Runs Python functions that take long beside the event loop, one at a time, and ends them when nobody waits any more."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
_RETRY_SECONDS = 0.02


class WorkThread:
    """Runs one function at a time in a thread, so that the event loop shares the interpreter with at most one. Belongs to one
    event loop."""

    def __init__(self) -> None:
        self._free = asyncio.Lock()

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Returns the result of the function or raises its exception. If the caller is cancelled, the function ends at its
        next step with SystemExit. It must not hold a lock of Python code for long."""
        async with self._free:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[Result] = loop.create_future()

            def work() -> None:
                try:
                    finish, value = done.set_result, function(*arguments)
                except BaseException as error:  # noqa: BLE001  raised in the caller
                    finish, value = done.set_exception, error  # type: ignore[assignment]
                loop.call_soon_threadsafe(lambda: done.cancelled() or finish(value))

            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            try:
                return await done
            finally:
                while done.cancelled() and thread.is_alive():
                    identity, ending = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ending)
                    await asyncio.sleep(_RETRY_SECONDS)
