"""Identifies callers: by API key, or by network address where no key is given."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from server.config import Settings, comma_separated
from server.errors import Forbidden, SettingsError
from server.store.keys import Key, Keys


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
    """Checks API keys. `keys` is None where there is no place for them. Raises SettingsError if
    they are required then."""

    def __init__(self, settings: Settings, keys: Keys | None) -> None:
        if settings.key_required and keys is None:
            raise SettingsError(
                "--key-required needs --data, the folder in which `attentive keys` keeps the keys, "
                "or --state redis://."
            )
        self.key_required = settings.key_required
        self._keys = keys

    @property
    def uses_keys(self) -> bool:
        """Whether keys are checked. While none exists and none is required, keys in requests are
        ignored."""
        return self.key_required or (self._keys is not None and self._keys.in_use)

    async def has_keys(self) -> bool:
        """Returns `uses_keys` when it is certain. Raises StateUnreachable where the keys were never
        read and cannot be."""
        if self._keys is not None:
            await self._keys.load()
        return self.uses_keys

    async def identify(self, secret: str | None, address: str) -> Caller:
        """Returns the caller of a request. Raises Forbidden for a key that is missing, unknown or
        revoked, and StateUnreachable for one that cannot be checked."""
        if not secret and self.key_required:
            raise Forbidden("This server requires an API key, which its operator issues.")
        if secret and self._keys is not None:
            key = await self._keys.find(secret) if await self.has_keys() else None
            if key is not None:
                return Caller(f"key {key.id}", key)
            if self.uses_keys:
                raise Forbidden("Invalid API key.", self._keys.revoked(secret))
        return Caller(network(address))


def network(address: str) -> str:
    """Returns the address under which a caller is counted: the /64 network of an IPv6 address, as
    one customer usually has a whole /64."""
    if ":" not in address:
        return address
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
    """Returns the addresses and networks of `--trusted-proxies`, as uvicorn takes them. IPv4
    networks are listed in IPv6 form too, in which a socket for both families reports IPv4 peers.
    Raises SettingsError for an item that is neither an address nor a network."""
    if text.strip() == "*":
        return ["*"]
    hosts: list[str] = []
    for item in comma_separated(text):
        try:
            network = ipaddress.ip_network(item)
        except ValueError as error:
            raise SettingsError(
                "--trusted-proxies (ATTENTIVE_TRUSTED_PROXIES) must be addresses or networks like "
                "10.0.0.0/8, separated "
                f"by commas, or * alone; {item!r} is neither."
            ) from error
        hosts.append(str(network))
        if network.version == 4:
            hosts.append(f"::ffff:{network.network_address}/{96 + network.prefixlen}")
    return hosts
