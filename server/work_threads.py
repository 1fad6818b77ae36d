"""Runs Python functions that take long beside the event loop, few at a time, and ends them when nobody waits any more."""

from __future__ import annotations

import asyncio
from _thread import get_ident, start_new_thread
from collections.abc import Callable
from ctypes import c_ulong, py_object, pythonapi
from typing import TypeVar

from server.fair_slots import FairSlots

Result = TypeVar("Result")
_RETRY_SECONDS = 0.02
THREADS = 2
"""Functions that run at the same time, of two callers."""


class WorkThreads:
    """Runs one function of a caller at a time in a thread, and at most THREADS in all, so that the event loop shares the
    interpreter with few. Callers take turns. Belongs to one event loop."""

    def __init__(self) -> None:
        self._slots = FairSlots(THREADS, 1)

    async def run(self, caller: str, size: int, function: Callable[..., Result], *arguments: object) -> Result:
        """Returns the result of the function or raises its exception. That with the least `size` of a caller is first. If
        the awaiting task is cancelled, the function ends at its next step with SystemExit: it must not log or take other
        locks of Python code, which it could leave locked."""
        async with self._slots.hold(caller, size):
            loop = asyncio.get_running_loop()
            done: asyncio.Future[Result] = loop.create_future()
            identity: int | None = None  # of the thread, while it catches the exception

            def work() -> None:
                nonlocal identity
                try:
                    identity = get_ident()
                    if done.cancelled():
                        return
                    finish, value = done.set_result, function(*arguments)
                except BaseException as error:  # noqa: BLE001  raised in the caller
                    finish, value = done.set_exception, error  # type: ignore[assignment]
                finally:
                    identity = None
                loop.call_soon_threadsafe(lambda: done.cancelled() or finish(value))

            # `Thread.start` would wait until the system runs the thread.
            start_new_thread(work, ())
            try:
                return await done
            finally:
                while done.cancelled() and identity is not None:
                    pythonapi.PyThreadState_SetAsyncExc(c_ulong(identity), py_object(SystemExit))
                    await asyncio.sleep(_RETRY_SECONDS)
