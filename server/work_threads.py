"""Runs Python functions that take up to a second in threads beside the event loop, few at a time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from server.fair_slots import FairSlots

Result = TypeVar("Result")
THREADS = 2
"""Functions that run at the same time, of two callers."""
REST = 1.0
"""After a function of t seconds its thread rests for REST * t, if short texts came meanwhile: they share the interpreter and
the processors with it, and take longer beside it."""


class WorkThreads:
    """Runs one function of a caller at a time in a thread, and at most THREADS in all, so that the event loop shares the
    interpreter with few. Callers take turns. Belongs to one event loop."""

    def __init__(self) -> None:
        self._slots = FairSlots(THREADS, 1)
        self._short = -math.inf

    def note_short(self) -> None:
        """A short text is translated now."""
        self._short = time.monotonic()

    async def run(self, caller: str, size: int, function: Callable[..., Result], *arguments: object) -> Result:
        """Returns the result of the function or raises its exception. That with the least `size` of a caller is first. If
        the awaiting task is cancelled, a function that has begun runs to its end and keeps its slot until then: no
        thread can be ended safely, so a function's time must be bounded."""
        async with AsyncExitStack() as slot:
            await slot.enter_async_context(self._slots.hold(caller, size))
            loop, began = asyncio.get_running_loop(), time.monotonic()
            running = loop.run_in_executor(None, function, *arguments)
            held = slot.pop_all()

            def rest(_: object) -> None:
                seconds = REST * (time.monotonic() - began) if self._short > began else 0
                loop.call_later(seconds, lambda: loop.create_task(held.aclose()))

            running.add_done_callback(rest)
            return await asyncio.shield(running)
