"""Identifies callers: by API key, or by network address where no key is given."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache

from server.access.api_keys import Key, KeyFile
from server.config import Settings
from server.errors import Forbidden, SettingsError


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
    def weight(self) -> float:
        """The factor of the caller's share: the weight of its key, else 1."""
        return self.key.weight if self.key else 1.0


class Authenticator:
    """Checks API keys. Raises SettingsError where keys are required and there is no data folder to keep them in."""

    def __init__(self, settings: Settings) -> None:
        if settings.key_required and settings.data is None:
            raise SettingsError("--key-required needs --data, the folder in which `attentive keys` keeps the keys.")
        self.key_required = settings.key_required
        self.keys = KeyFile(settings.data) if settings.data is not None else None

    @property
    def uses_keys(self) -> bool:
        """Whether keys are checked. While none exists and none is required, keys in requests are ignored."""
        return self.key_required or bool(self.keys)

    def identify(self, secret: str | None, address: str) -> Caller:
        """Returns the caller of a request. Raises Forbidden for a key that is missing, unknown or revoked."""
        key = self._key(secret)
        return Caller(f"key {key.id}", key) if key else Caller(network(address))

    def _key(self, secret: str | None) -> Key | None:
        if not self.uses_keys:
            return None
        if not secret:
            if self.key_required:
                raise Forbidden("This server requires an API key, which its operator issues.")
            return None
        key = self.keys.find(secret) if self.keys is not None else None
        if key is None:
            raise Forbidden("Invalid API key.")
        return key


@lru_cache(maxsize=4096)
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
