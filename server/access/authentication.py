"""Identifies callers: by API key, or by network address where no key is given."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from server.access.api_keys import Key, KeyFile
from server.config import Settings
from server.errors import Forbidden, SettingsError

if TYPE_CHECKING:
    from server.access.redis_keys import RedisKeys
    from server.state.redis import RedisState

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller. `name` is opaque and identifies the caller for rate limits and fair queueing."""

    name: str
    key: Key | None = None

    @property
    def owner(self) -> str:
        """The id of the caller's key, which owns its glossaries; empty without a key."""
        return self.key.id if self.key else ""

    @property
    def remembered(self) -> bool:
        """Whether the caller's texts may be stored, in the history and in the result cache."""
        return self.key is None or self.key.remembered

    @property
    def weight(self) -> float:
        """The factor of the caller's share: the weight of its key, else 1."""
        return self.key.weight if self.key else 1.0


class Authenticator:
    """Checks API keys, which are in Redis with `state`, else in the data folder. Raises SettingsError where keys are
    required and can be kept in neither."""

    def __init__(self, settings: Settings, state: RedisState | None = None) -> None:
        if settings.key_required and settings.data is None and state is None:
            raise SettingsError(
                "--key-required needs --data, the folder in which `attentive keys` keeps the keys, or --state redis://."
            )
        self.key_required = settings.key_required
        self._file = KeyFile(settings.data) if settings.data is not None and state is None else None
        self._shared = shared_keys(state) if state is not None else None
        if state is not None and settings.data is not None and KeyFile(settings.data).in_use:
            log.warning("the API keys of the data folder are not used; `attentive keys import` copies them to Redis")

    @property
    def uses_keys(self) -> bool:
        """Whether keys are checked. While none exists and none is required, keys in requests are ignored."""
        keys = self._shared or self._file
        return self.key_required or (keys is not None and keys.in_use)

    async def has_keys(self) -> bool:
        """Returns `uses_keys` when it is certain. Raises StateUnreachable where the keys were never read and cannot be."""
        if self._shared is not None:
            await self._shared.load()
        return self.uses_keys

    async def identify(self, secret: str | None, address: str) -> Caller:
        """Returns the caller of a request. Raises Forbidden for a key that is missing, unknown or revoked, and
        StateUnreachable for one that cannot be checked."""
        if not self.uses_keys:
            return without_key(address)
        key = await self._key(secret)
        return Caller(f"key {key.id}", key) if key else without_key(address)

    async def _key(self, secret: str | None) -> Key | None:
        if not secret:
            if self.key_required:
                raise Forbidden("This server requires an API key, which its operator issues.")
            return None
        keys = self._shared or self._file
        key = keys.find(secret) if keys is not None else None
        if key is None and self._shared is not None:
            key = await self._shared.look_up(secret)
            if not self.uses_keys:  # the keys were read just now, and there are none
                return None
        if key is None:
            raise Forbidden("Invalid API key.")
        return key


def shared_keys(state: RedisState) -> RedisKeys:
    """Returns the keys in Redis."""
    from server.access.redis_keys import RedisKeys  # needs the extra `redis`

    return RedisKeys(state)


@lru_cache(maxsize=4096)
def without_key(address: str) -> Caller:
    """Returns the caller of a request without a key."""
    return Caller(network(address))


def network(address: str) -> str:
    """Returns the address under which a caller is counted: the /64 network of an IPv6 address, as one customer usually
    has a whole /64."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)
