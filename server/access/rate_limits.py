"""Limits on requests and characters per minute for each API key or network address, and the quotas
of keys."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from server.access.authentication import Caller
from server.config import Settings
from server.errors import Overloaded, StateUnreachable, TextTooLong
from server.store.keys import Key, Usage

WINDOW_SECONDS = 60
Charge = tuple[str, int, int]
"""What is counted, its limit per minute, and the amount to count."""


class SharedCounters(Protocol):
    """Counters of several servers or processes."""

    async def charge(self, amounts: Sequence[Charge], seconds: float) -> tuple[int, float]:
        """As `RedisStore.charge`. Raises StateUnreachable."""


class Windows:
    """Counts by name in windows of a minute. That of a name begins with its first count."""

    def __init__(self) -> None:
        # the end of the window and the sum, oldest first
        self._counts: dict[str, tuple[float, int]] = {}

    def charge(self, amounts: Sequence[Charge]) -> tuple[int, float]:
        """Counts all amounts or, where one would exceed its limit, none. Returns as
        `RedisStore.charge` does."""
        now, counts = time.time(), self._counts
        for name in [*islice(counts, 2), *[name for name, _, _ in amounts]]:
            if name in counts and not now < counts[name][0] <= now + WINDOW_SECONDS:
                del counts[name]
        new = now + WINDOW_SECONDS, 0
        for position, (name, limit, amount) in enumerate(amounts):
            end, used = counts.get(name, new)
            if used + amount > limit:
                return position, end - now
        for name, _, amount in amounts:
            end, used = counts.get(name, new)
            counts[name] = end, used + amount
        return -1, 0.0


class RateLimiter:
    """Counts requests and characters of each caller in fixed windows of one minute, and the usage
    of keys.

    All counts of a window are reset when it ends, so Retry-After is exact. Counters are in memory,
    or in the `shared` ones of several servers or processes. While these are unreachable, each
    counts for itself.
    """

    def __init__(
        self, settings: Settings, usage: Usage, shared: SharedCounters | None = None
    ) -> None:
        self._default_limits = (settings.requests_per_minute, settings.characters_per_minute)
        self._local = Windows()
        self._shared = shared
        self.usage = usage

    async def count(self, caller: Caller, requests: int = 1, characters: int = 0) -> None:
        """Counts requests and characters of a caller. `requests` 0 adds characters to a request
        counted before.

        Raises Overloaded where a limit or a quota is exceeded, and TextTooLong where `characters`
        alone exceed the limit.
        """
        requests_limit, characters_limit = self._limits(caller.key)
        if characters_limit and characters > characters_limit:
            raise TextTooLong(
                f"{characters:,} characters are over the limit of {characters_limit:,} characters "
                "per minute."
            )
        charges = [
            ("requests", requests_limit, requests),
            ("characters", characters_limit, characters),
        ]
        if limited := [charge for charge in charges if charge[1] and charge[2]]:
            await self._charge(caller.name, limited)
        key = caller.key
        if characters and key is not None and (key.characters_per_day or key.characters_per_month):
            await self.usage.spend(key, characters)
        elif characters:
            self.usage.add(caller.owner, characters)

    def _limits(self, key: Key | None) -> tuple[int, int]:
        """Returns requests and characters per minute; 0 is unlimited."""
        requests, characters = self._default_limits
        if key is not None:
            requests = requests if key.requests_per_minute is None else key.requests_per_minute
            characters = (
                characters if key.characters_per_minute is None else key.characters_per_minute
            )
        return requests, characters

    def charge(self, amounts: Sequence[Charge]) -> tuple[int, float]:
        """Counts for another process, as `RedisStore.charge` does."""
        return self._local.charge(amounts)

    async def _charge(self, caller: str, charges: Sequence[Charge]) -> None:
        amounts, over = (
            [(f"{unit}:{caller}", limit, amount) for unit, limit, amount in charges],
            None,
        )
        if self._shared is not None:
            with contextlib.suppress(StateUnreachable):  # this server counts for itself
                over = await self._shared.charge(amounts, WINDOW_SECONDS)
        position, seconds = over or self._local.charge(amounts)
        if position >= 0:
            unit, limit, _ = charges[position]
            wait = min(WINDOW_SECONDS, max(1, math.ceil(seconds)))
            raise Overloaded(f"The limit of {unit} per minute is {limit:,}.", wait, "rate")
