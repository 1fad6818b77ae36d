"""Limits on requests and characters per minute, for each API key or network address."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from dataclasses import dataclass

from limits import RateLimitItemPerMinute
from limits.errors import ConfigurationError, StorageError
from limits.storage import MemoryStorage, RedisStorage, Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from server.access.api_keys import Key
from server.access.authentication import Caller
from server.config import Settings
from server.errors import Overloaded, SettingsError, TextTooLong
from server.state.setting import state_kind

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount of `unit` ("requests" or "characters") to count against a limit per minute."""

    unit: str
    limit: int
    amount: int


class RateLimiter:
    """Counts requests and characters of each caller in fixed windows of one minute.

    All counts of a window are reset when it ends, so Retry-After is exact. Counters are in memory, or in Redis where
    several servers share them. While Redis is unreachable, each server counts for itself. Raises SettingsError for a
    storage address that cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._default_limits = (settings.requests_per_minute, settings.characters_per_minute)
        self._characters: Counter[str | None] = Counter()  # by id of the key; None is every caller without a key
        self._local = FixedWindowRateLimiter(MemoryStorage())
        self._shared: FixedWindowRateLimiter | None = None
        if state_kind(settings) == "redis":
            self._shared = FixedWindowRateLimiter(open_storage(settings.state))

    async def count(self, caller: Caller, requests: int = 1, characters: int = 0) -> None:
        """Counts requests and characters of a caller. `requests` 0 adds characters to a request counted before.

        Raises Overloaded where a limit is exceeded, and TextTooLong where `characters` alone exceed the limit.
        """
        requests_limit, characters_limit = self._limits(caller.key)
        if characters_limit and characters > characters_limit:
            raise TextTooLong(
                f"{characters:,} characters are over the limit of {characters_limit:,} characters per minute."
            )
        if requests_limit or characters_limit:
            charges = [Charge("requests", requests_limit, requests), Charge("characters", characters_limit, characters)]
            if limited := [charge for charge in charges if charge.limit and charge.amount]:
                await self._charge(caller.name, limited)
        self._characters[caller.key.id if caller.key else None] += characters

    def characters_used(self, caller: Caller) -> int:
        """Returns the characters sent with the caller's key, or by all callers without a key, since the start of this
        server."""
        return self._characters[caller.key.id if caller.key else None]

    def close(self) -> None:
        """Closes the connections to Redis, if there are any."""
        if self._shared is not None and isinstance(self._shared.storage, RedisStorage):
            self._shared.storage.storage.connection_pool.disconnect()

    def _limits(self, key: Key | None) -> tuple[int, int]:
        """Returns requests and characters per minute; 0 is unlimited."""
        requests, characters = self._default_limits
        if key is not None:
            requests = requests if key.requests_per_minute is None else key.requests_per_minute
            characters = characters if key.characters_per_minute is None else key.characters_per_minute
        return requests, characters

    async def _charge(self, caller: str, charges: list[Charge]) -> None:
        if self._shared is None:
            charge(self._local, caller, charges)
            return
        try:
            await asyncio.to_thread(charge, self._shared, caller, charges)
        except StorageError:
            log.warning("the store of the rate limits cannot be reached; this server counts for itself")
            charge(self._local, caller, charges)


def charge(limiter: FixedWindowRateLimiter, caller: str, charges: list[Charge]) -> None:
    """Counts all charges against the caller's limits, or none of them. Raises Overloaded."""
    items = [(RateLimitItemPerMinute(each.limit), each.unit, each.amount) for each in charges]
    for item, unit, amount in items:
        if not limiter.test(item, unit, caller, cost=amount):
            wait = math.ceil(limiter.get_window_stats(item, unit, caller).reset_time - time.time())
            if wait > item.get_expiry() + 1:  # the clock was set back, which would prolong this window
                limiter.clear(item, unit, caller)
                continue
            wait = min(item.get_expiry(), max(1, wait))
            raise Overloaded(f"Slow down: at most {item.amount:,} {unit} per minute.", wait, "rate")
    for item, unit, amount in items:
        limiter.hit(item, unit, caller, cost=amount)


def open_storage(uri: str) -> Storage:
    """Returns the storage that several servers share. Raises SettingsError for an address that cannot be used."""
    try:
        storage = storage_from_string(uri, wrap_exceptions=True)
    except ConfigurationError as error:  # an unknown kind of storage, or its client library is not installed
        raise SettingsError(
            "--state must be redis://host:port, which needs the extra: attentive-server[redis]."
        ) from error
    except Exception as error:  # the client libraries raise errors of their own types
        raise SettingsError(f"--state cannot be used: {type(error).__name__}.") from error
    if not isinstance(storage, Storage):
        raise SettingsError("--state must be redis://host:port.")
    return storage
