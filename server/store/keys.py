"""API keys, which `attentive keys` writes and the server reads, and the characters sent with each:
in total, and in the day and the month of a key with quotas.

Only the SHA-256 of a secret is stored. A secret has 256 random bits, so that a fast hash is
sufficient. A server keeps all valid keys in memory, and twice a second reads them again if the
version of their table has changed. So known keys work while the store cannot be used, and a
revocation is seen within a second.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from server.errors import QuotaExceeded, SettingsError, StateUnreachable
from server.store.interface import Store

log = logging.getLogger(__name__)
NAME = "keys"
"""The table: digest of the secret -> key as JSON, revoked ones included."""
PREFIX = "atk_"
LIMIT = 10_000
"""Most keys, because every server keeps them in memory."""
MIN_WEIGHT, MAX_WEIGHT = 0.1, 100.0


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `id` is public; `digest` is the SHA-256 of the secret in hexadecimal. A limit per
    minute is the server's if it is None, and none if it is 0; a limit per day or month is none in
    both cases. Times are in seconds since the epoch. `weight` multiplies the caller's share of the
    server. Texts of a caller that is not `remembered` are stored neither in the history nor in the
    result cache. Raises SettingsError for a weight out of range."""

    id: str
    name: str
    digest: str
    created: float
    requests_per_minute: int | None = None
    characters_per_minute: int | None = None
    revoked: float | None = None
    weight: float = 1.0
    remembered: bool = True
    characters_per_day: int | None = None
    characters_per_month: int | None = None

    def __post_init__(self) -> None:
        if not MIN_WEIGHT <= self.weight <= MAX_WEIGHT:
            raise SettingsError(
                f"The weight of a key must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, not "
                f"{self.weight:g}."
            )


class Keys:
    """The keys of a store. Methods raise StateUnreachable where the store cannot be used and its
    answer is needed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_digest: dict[str, Key] = {}
        self._revoked: dict[str, str] = {}
        self._version = ""
        self._loaded = False
        store.at_every_beat(self._refresh)

    @property
    def in_use(self) -> bool:
        """Whether there is a valid key, or the keys were never read."""
        return bool(self._by_digest) or not self._loaded

    async def find(self, secret: str) -> Key | None:
        """Returns the valid key of a secret, or None."""
        if digest(secret) not in self._by_digest:
            await self._refresh()  # it may have been created a moment ago
        return self._by_digest.get(digest(secret))

    def revoked(self, secret: str) -> str:
        """Returns the id of the revoked key of a secret; empty for another secret."""
        return self._revoked.get(digest(secret), "")

    async def load(self) -> None:
        """Reads the keys if they were never read."""
        if not self._loaded:
            await self._refresh()

    async def all(self) -> list[Key]:
        """Returns all keys, revoked ones included, oldest first."""
        entries = await self._store.read_all(NAME)
        return sorted(
            filter(None, map(parse, entries.values())), key=lambda key: (key.created, key.id)
        )

    async def create(self, name: str, **fields: Any) -> tuple[str, Key]:
        """Creates a key with these fields and returns its secret, which is not stored, and the key.
        Raises SettingsError for an empty name, a weight out of range, and beyond LIMIT keys."""
        if not name.strip():
            raise SettingsError("The name of a key must not be empty.")
        secret = PREFIX + secrets.token_urlsafe(32)
        key = Key(secrets.token_hex(4), name, digest(secret), time.time(), **fields)
        await self.add([key])
        return secret, key

    async def add(self, keys: Sequence[Key]) -> None:
        """Stores keys. A revoked one stays revoked. Raises SettingsError beyond LIMIT keys."""
        stored = {key.digest for key in await self.all()}
        changed = {
            key.digest: key for key in keys if key.digest not in stored or key.revoked is not None
        }
        if len(stored | changed.keys()) > LIMIT:
            raise SettingsError(f"There are {len(stored):,} API keys; {LIMIT:,} is the limit.")
        await self._write(changed)

    async def change(self, id: str, **fields: Any) -> Key | None:
        """Changes fields of a key and returns the key as it was, or None where no valid key has this
        id. Raises SettingsError for a weight out of range."""
        key = next((key for key in await self.all() if key.id == id and key.revoked is None), None)
        if key is not None:
            await self._write({key.digest: dataclasses.replace(key, **fields)})
        return key

    async def _write(self, keys: Mapping[str, Key]) -> None:
        """Stores keys without fields that are None, of which earlier versions do not know all."""
        entries = {digest: dataclasses.asdict(key).items() for digest, key in keys.items()}
        if entries:
            stored = {
                digest: {name: value for name, value in entry if value is not None}
                for digest, entry in entries.items()
            }
            await self._store.write(
                {NAME: {digest: json.dumps(entry).encode() for digest, entry in stored.items()}}
            )

    async def _refresh(self) -> None:
        version = await self._store.version(NAME)
        if self._loaded and version == self._version:
            return
        keys = await self.all()
        if not keys and self._by_digest:  # keys are revoked, never deleted: the store has lost them
            log.error(
                "the store has no API keys any more; the last ones stay valid until it has some: "
                "restore it, or create keys"
            )
            self._version = version
            return
        self._by_digest = {key.digest: key for key in keys if key.revoked is None}
        self._revoked = {key.digest: key.id for key in keys if key.revoked is not None}
        self._version, self._loaded = version, True


def digest(secret: str) -> str:
    """Returns the SHA-256 of a secret in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def parse(text: bytes) -> Key | None:
    """Returns the key of an entry, or None for a damaged one."""
    try:
        return Key(**json.loads(text))
    except (ValueError, TypeError, SettingsError):
        log.error("an API key in the store is damaged and not valid: create another one")
        return None


USAGE = "usage"
"""The table: id of the key -> its characters; id and date, or id and month -> those of a period."""


class Quota(NamedTuple):
    """Most characters of a key in a period ("day" or "month", UTC), and those `used`, which the store
    counts under the id `record`. `reset` is the end of the period in ISO 8601, `seconds` the time
    until then."""

    period: str
    limit: int
    record: str
    reset: str
    seconds: int
    used: int = 0


def quotas_of(key: Key) -> list[Quota]:
    """Returns the present quotas of a key."""
    now = time.time()
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    month = (today.replace(day=1) + timedelta(days=31)).replace(day=1)
    periods = (
        ("day", key.characters_per_day, f"{today:%Y-%m-%d}", today + timedelta(days=1)),
        ("month", key.characters_per_month, f"{today:%Y-%m}", month),
    )
    return [
        Quota(
            period,
            limit,
            f"{key.id} {date}",
            f"{end:%Y-%m-%dT%H:%M:%SZ}",
            max(1, math.ceil(end.timestamp() - now)),
        )
        for period, limit, date, end in periods
        if limit
    ]


class Usage:
    """Counts characters in memory, and adds them to the store twice a second, or when it can be used
    again. Callers without a key have the empty id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._characters: Counter[str] = Counter()
        self._month = ""
        store.at_every_beat(self.flush)

    def add(self, key: str, characters: int) -> None:
        """Counts characters of a key."""
        self._characters[key] += characters

    async def spend(self, key: Key, characters: int) -> None:
        """Counts characters of a key with quotas, which hold over all servers, in the store; later if
        it cannot be used. Raises QuotaExceeded, and counts none."""
        quotas = quotas_of(key)
        amounts = dict.fromkeys([key.id, *(quota.record for quota in quotas)], characters)
        try:
            over = await self._store.increase(
                USAGE, amounts, {quota.record: quota.limit for quota in quotas}
            )
        except StateUnreachable:
            self._characters.update(amounts)
            return
        for quota in quotas:
            if quota.record == over:
                raise QuotaExceeded(
                    f"The {quota.limit:,} characters per {quota.period} of this key are used until "
                    f"{quota.reset}.",
                    quota.seconds,
                )

    async def quotas(self, key: Key) -> list[Quota]:
        """Returns the quotas of a key with the used characters. Raises StateUnreachable."""
        return [quota._replace(used=await self.read(quota.record)) for quota in quotas_of(key)]

    async def read(self, record: str) -> int:
        """Returns all characters of a key, or those of a quota. Raises StateUnreachable."""
        return int(await self._store.read(USAGE, record) or 0) + self._characters[record]

    async def flush(self) -> None:
        """Adds the counts to the store, and once a month deletes those of earlier months. Raises
        StateUnreachable, and keeps the counts."""
        if counts := self._characters.copy():
            await self._store.increase(USAGE, counts)
            self._characters -= counts
        month = time.strftime("%Y-%m", time.gmtime(time.time()))
        if month != self._month:
            records = await self._store.read_all(USAGE)
            past = {record: None for record in records if "" < record.partition(" ")[2] < month}
            if past:
                await self._store.write({USAGE: past})
            self._month = month
