"""Characters sent with each API key: in total, and in the day and the month of a key with
quotas."""

from __future__ import annotations

import math
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from server.errors import QuotaExceeded, StateUnreachable
from server.store.interface import Store
from server.store.keys import Key

NAME = "usage"
"""The table: id of the key -> its characters; id and date, or id and month -> those of this
period."""


class Quota(NamedTuple):
    """Most characters of a key in a period ("day" or "month", UTC), and those `used`, whose count
    has the id `record`. `reset` is the end of the period in ISO 8601, and `seconds` the time until
    then."""

    period: str
    limit: int
    record: str
    reset: str
    seconds: int
    used: int = 0


def quotas_of(key: Key) -> list[Quota]:
    """Returns the quotas of a key in the periods of this moment."""
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
    """Counts in memory, and adds the counts to those in the store twice a second. While the store
    cannot be used, they wait. All callers without a key have the empty id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._characters: Counter[str] = Counter()
        self._month = ""
        store.at_every_beat(self.flush)

    def add(self, key: str, characters: int) -> None:
        """Counts characters of a key."""
        self._characters[key] += characters

    async def spend(self, key: Key, characters: int) -> None:
        """Counts characters of a key with quotas, in the store: they hold over all servers. While
        it cannot be used, they are counted later. Raises QuotaExceeded, and counts none."""
        quotas = quotas_of(key)
        amounts = dict.fromkeys([key.id, *(quota.record for quota in quotas)], characters)
        try:
            over = await self._store.increase(
                NAME, amounts, {quota.record: quota.limit for quota in quotas}
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
        """Returns the quotas of a key with what is used. Raises StateUnreachable."""
        return [quota._replace(used=await self.read(quota.record)) for quota in quotas_of(key)]

    async def read(self, record: str) -> int:
        """Returns the characters of a key since the first start with this store, or those of a
        quota. Raises StateUnreachable."""
        return int(await self._store.read(NAME, record) or 0) + self._characters[record]

    async def flush(self) -> None:
        """Adds the counts since the last call to those in the store, and once a month deletes those
        of earlier months. Raises StateUnreachable, and keeps the counts."""
        if counts := self._characters.copy():
            await self._store.increase(NAME, counts)
            self._characters -= counts
        month = time.strftime("%Y-%m", time.gmtime(time.time()))
        if month != self._month:
            records = await self._store.read_all(NAME)
            past = {record: None for record in records if "" < record.partition(" ")[2] < month}
            if past:
                await self._store.write({NAME: past})
            self._month = month
