"""A request ends at its time limit; other errors and cancellations stay what they are."""

from __future__ import annotations

import asyncio
import time

import pytest

from server.errors import DeadlineExceeded
from server.translation.time_limit import time_limit


@pytest.mark.parametrize(
    ("seconds", "raised", "expected"),
    [
        (-1, None, DeadlineExceeded),
        (1e9, KeyError, KeyError),
        (1e9, TimeoutError, TimeoutError),
        (1e9, asyncio.CancelledError, asyncio.CancelledError),
        (0, asyncio.CancelledError, asyncio.CancelledError),
    ],
)
def test_only_the_end_of_the_time_is_reported_as_such(seconds, raised, expected):
    async def scenario() -> None:
        async with time_limit(None), time_limit(time.monotonic() + seconds):
            if raised is not None:
                raise raised
            await asyncio.Event().wait()

    with pytest.raises(expected):
        asyncio.run(scenario())
