"""Who may come in, and how often: API keys, and limits on requests and characters per key or per address."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from collections import Counter
from functools import lru_cache

from limits import RateLimitItemPerMinute
from limits.errors import ConfigurationError, StorageError
from limits.storage import MemoryStorage, RedisStorage, Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from server.access.api_keys import Key, KeyFile
from server.config import Settings
from server.errors import Forbidden, Overloaded, SettingsError, TextTooLong

log = logging.getLogger(__name__)
MEMORY = "memory://"


class Access:
    """The door of one server.

    Limits count in fixed windows of one minute, so that Retry-After can be kept: when the window ends, everything in it
    is forgotten. Counters are in memory, or in Redis where several servers share them; while Redis cannot be reached
    each server counts for itself. Raises SettingsError for settings that contradict each other.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.key_required and settings.data is None:
            raise SettingsError("--key-required needs --data, the folder in which `attentive keys` keeps the keys.")
        self.key_required = settings.key_required
        self.keys = KeyFile(settings.data) if settings.data is not None else None
        self.characters: Counter[str] = Counter()
        """Characters that each key (by id) sent since the start."""
        self._defaults = (settings.requests_per_minute, settings.characters_per_minute)
        self._memory = FixedWindowRateLimiter(MemoryStorage())
        self._shared: FixedWindowRateLimiter | None = None
        if settings.limits_storage != MEMORY:
            self._shared = FixedWindowRateLimiter(storage(settings.limits_storage))

    @property
    def uses_keys(self) -> bool:
        """Whether there is any key; as long as there is none, what callers send as a key means nothing."""
        return self.key_required or bool(self.keys)

    def close(self) -> None:
        """Closes the connections to Redis, if there are any."""
        if self._shared is not None and isinstance(self._shared.storage, RedisStorage):
            self._shared.storage.storage.connection_pool.disconnect()

    async def enter(self, secret: str | None, address: str, characters: int = 0, requests: int = 1) -> str:
        """Lets a request of so many characters in and counts it. Returns an opaque name of the caller.

        `requests` 0 adds characters to a request that was counted before.

        Raises Forbidden for a key that is missing or not good, Overloaded over a limit, TextTooLong where the limit
        could never let this many characters in.
        """
        key = self._key(secret)
        client = f"key {key.id}" if key else network(address)
        requests_limit, characters_limit = self._limits(key)
        if characters_limit and characters > characters_limit:
            raise TextTooLong(
                f"{characters:,} characters are over the limit of {characters_limit:,} characters per minute."
            )
        if requests_limit or characters_limit:
            wanted = [("requests", requests_limit, requests), ("characters", characters_limit, characters)]
            if limited := [item for item in wanted if item[1] and item[2]]:
                await self._count(client, limited)
        if key:
            self.characters[key.id] += characters
        return client

    def used(self, secret: str | None) -> int:
        """Characters sent with this key since the start. Raises Forbidden."""
        key = self._key(secret)
        return self.characters[key.id] if key else 0

    def _key(self, secret: str | None) -> Key | None:
        if not self.uses_keys:
            return None
        if not secret:
            if self.key_required:
                raise Forbidden("This server asks for an API key; its operator makes them.")
            return None
        key = self.keys.find(secret) if self.keys is not None else None
        if key is None:
            raise Forbidden("Invalid API key.")
        return key

    def _limits(self, key: Key | None) -> tuple[int, int]:
        if key is None:
            return self._defaults
        own = (key.requests_per_minute, key.characters_per_minute)
        requests_limit, characters_limit = (
            default if value is None else value for value, default in zip(own, self._defaults, strict=True)
        )
        return requests_limit, characters_limit

    async def _count(self, client: str, wanted: list[tuple[str, int, int]]) -> None:
        if self._shared is None:
            count(self._memory, client, wanted)
            return
        try:
            await asyncio.to_thread(count, self._shared, client, wanted)
        except StorageError:
            log.warning("the store of the rate limits cannot be reached; this server counts for itself")
            count(self._memory, client, wanted)


def count(limiter: FixedWindowRateLimiter, client: str, wanted: list[tuple[str, int, int]]) -> None:
    """Takes (what, limit per minute, amount) from a caller's budgets, all or none. Raises Overloaded."""
    items = [(RateLimitItemPerMinute(limit), what, amount) for what, limit, amount in wanted]
    for item, what, amount in items:
        if not limiter.test(item, what, client, cost=amount):
            wait = math.ceil(limiter.get_window_stats(item, what, client).reset_time - time.time())
            if wait > item.get_expiry() + 1:  # the clock was set back: this window would end as much later
                limiter.clear(item, what, client)
                continue
            wait = min(item.get_expiry(), max(1, wait))
            raise Overloaded(f"Slow down: at most {item.amount:,} {what} per minute.", wait, "rate")
    for item, what, amount in items:
        limiter.hit(item, what, client, cost=amount)


def storage(uri: str) -> Storage:
    """The store that several servers share. Raises SettingsError for an address that cannot be used."""
    try:
        made = storage_from_string(uri, wrap_exceptions=True)
    except ConfigurationError as error:  # no such kind of store, or its client is not installed
        raise SettingsError(
            "--limits-storage must be memory:// or redis://host:port, which needs the extra: attentive-server[redis]."
        ) from error
    except Exception as error:  # the library raises the errors of whatever client it finds behind the address
        raise SettingsError(f"--limits-storage cannot be used: {type(error).__name__}.") from error
    if not isinstance(made, Storage):
        raise SettingsError("--limits-storage must be memory:// or redis://host:port.")
    return made


@lru_cache(maxsize=4096)
def network(address: str) -> str:
    """The address as it is counted: an IPv6 customer has a /64 of them."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


def trusted_hosts(text: str) -> list[str]:
    """The addresses and networks of `--trusted-proxies` as uvicorn compares them with who connects. A socket for both
    families names an IPv4 address in IPv6's form, so each stands there in both. Raises SettingsError."""
    if text.strip() == "*":
        return ["*"]
    hosts: list[str] = []
    for item in filter(None, map(str.strip, text.split(","))):
        try:
            found = ipaddress.ip_network(item)
        except ValueError as error:
            raise SettingsError(
                "--trusted-proxies (ATTENTIVE_TRUSTED_PROXIES) must be addresses or networks like 10.0.0.0/8, separated "
                f"by commas, or * alone; {item!r} is neither."
            ) from error
        hosts.append(str(found))
        if found.version == 4:
            hosts.append(f"::ffff:{found.network_address}/{96 + found.prefixlen}")
    return hosts
