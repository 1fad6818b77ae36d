"""The usage of keys: over all servers, over restarts, and not lost in an outage."""

from __future__ import annotations

import pytest

from server.errors import QuotaExceeded, StateUnreachable
from server.store.keys import Key
from server.store.usage import Usage, quotas_of
from tests.support.servers.in_process import wait_for

HELLO = {"q": "Hello", "source": "en", "target": "de"}


def used(client, **key: str) -> int:
    answer = client.get("/v2/usage", params={"auth_key": key["api_key"]} if key else {})
    assert answer.status_code == 200
    return answer.json()["character_count"]


def test_usage_is_kept_over_restarts(serve, tmp_path):
    for count in (1, 2):
        client = serve(data=tmp_path)
        assert client.post("/translate", json=HELLO).status_code == 200
        wait_for(lambda client=client, count=count: used(client) == 5 * count)


async def test_counts_wait_while_the_store_fails_and_are_written_at_the_stop(any_store, monkeypatch):
    """Quotas let pass meanwhile, and count what has passed."""

    async def fail(*_: object) -> None:
        raise StateUnreachable

    async with any_store() as store:
        usage, limited = Usage(store), Key("a", "Ann", "digest", 0.0, characters_per_day=5)
        await store.start()
        with monkeypatch.context() as patches:
            patches.setattr(store, "increase", fail)
            usage.add("b", 5)
            await usage.spend(limited, 5)
            with pytest.raises(StateUnreachable):
                await usage.flush()
        usage.add("b", 1)
        assert (await usage.read("a"), await usage.read("b")) == (5, 6)
        assert [quota.used for quota in await usage.quotas(limited)] == [5]
        await usage.flush()
        with pytest.raises(QuotaExceeded):
            await usage.spend(limited, 1)
        usage.add("b", 1)
        counts = []

        async def read() -> None:
            counts.append(await store.read("usage", "b"))

        with monkeypatch.context() as patches:
            patches.setattr(store, "_close", read)
            await store.stop()
        assert counts == [b"7"]


async def test_counts_of_earlier_months_are_forgotten(any_store, monkeypatch):
    async with any_store() as store:
        usage = Usage(store)
        limited = Key("ab", "Ann", "digest", 0.0, characters_per_day=5, characters_per_month=5)
        for day in (0, 1, 35, 70):
            monkeypatch.setattr("time.time", lambda day=day: 1e9 + 86_400 * day)
            await usage.spend(limited, 1)
            await usage.flush()
        assert set(await store.read_all("usage")) == {"ab", *[quota.record for quota in quotas_of(limited)]}
        assert await usage.read("ab") == 4
