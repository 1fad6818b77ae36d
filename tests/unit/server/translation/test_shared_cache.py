"""The result cache in Redis: what one server translated, the others answer, and an outage is only a
miss."""

from __future__ import annotations

import asyncio

import redis as redis_client
from starlette.testclient import TestClient

from server.config import Settings
from server.store.redis import RedisStore, connect, name_of
from server.translation import result_cache
from server.translation.result_cache import JSON, ResultCache
from tests.support.servers.in_process import wait_for
from tests.support.servers.ports import free_port
from tests.unit.server.translation.test_result_cache import ask, translation

PREFIX = name_of("cache") + ":"
INDEX, BYTES = PREFIX + "index", PREFIX + "bytes"


def keys_of(url: str) -> set[bytes]:
    with redis_client.Redis.from_url(url) as client:
        return {key for key in client.keys(PREFIX + "*") if len(key) == len(PREFIX) + 64}


def count(client: TestClient, name: str) -> float:
    [line] = [
        line for line in client.get("/metrics").text.splitlines() if line.startswith(name + " ")
    ]
    return float(line.split()[1])


def test_what_one_server_translated_another_answers(serve, engine, redis):
    first, second = serve(state=redis), serve(state=redis)
    answer = ask(first, details=True).json()
    wait_for(lambda: keys_of(redis))
    sent = len(engine.submitted)
    again = ask(second, details=True).json()
    assert len(engine.submitted) == sent
    assert again["translatedText"] == answer["translatedText"]
    assert again["details"]["sentences"] == answer["details"]["sentences"]
    assert again["id"] != answer["id"]
    assert (
        second.get("/attention", params={"id": again["id"], "format": "json"}).json()["id"]
        == again["id"]
    )
    assert count(second, "attentive_cache_shared_hits_total") == 1
    ask(second, details=True)
    # now it is in the memory of the second too
    assert count(second, "attentive_cache_shared_hits_total") == 1


def test_no_text_is_in_a_key_and_nothing_of_a_private_request_is_in_redis(serve, redis):
    client = serve(state=redis, history=False)
    ask(client, headers=[("Cache-Control", "no-store")], q="Geheim")
    ask(client, q="Katze")
    wait_for(lambda: keys_of(redis))
    with redis_client.Redis.from_url(redis) as direct:
        keys = direct.keys("*")
        values = [direct.get(key) for key in keys if direct.type(key) == b"string"]
    assert not any(b"Katze" in key for key in keys)
    assert any(b"Katze" in value for value in values) and not any(
        b"Geheim" in value for value in values
    )


def test_without_redis_translations_go_on(serve, engine):
    client = serve(state=f"redis://127.0.0.1:{free_port()}")
    assert ask(client).json()["translatedText"] == ask(client).json()["translatedText"]
    assert len(engine.submitted) == 2


def test_a_value_that_is_not_ours_is_a_miss(serve, engine, redis):
    first, second = serve(state=redis), serve(state=redis)
    ask(first)
    wait_for(lambda: keys_of(redis))
    with redis_client.Redis.from_url(redis) as direct:
        direct.set(keys_of(redis).pop(), b'{"id": 1}')
    sent = len(engine.submitted)
    ask(second)
    assert len(engine.submitted) == sent + 2


def shared(redis: str, size: int = 1_000_000) -> list[bool]:
    """Adds five translations to the cache of one server and returns which another one finds."""
    one = translation()
    names = [bytes([number]) * 32 for number in range(5)]

    async def scenario() -> list[bool]:
        store = RedisStore(connect(redis))
        settings = Settings(cache_bytes=size, cache_seconds=100.0)
        first, second = ResultCache(settings, store), ResultCache(settings, store)
        await store.start()
        for name in names:
            first.add([name], [one])
            await store._beat()
        found = await second.find(names)
        await store.stop()
        return [number in found for number in range(5)]

    return asyncio.run(scenario())


def test_the_oldest_translations_are_dropped_beyond_the_bytes(redis):
    size = len(JSON.dump_json(translation(), exclude_defaults=True))
    assert shared(redis, 3 * size) == [False, False, True, True, True]
    with redis_client.Redis.from_url(redis) as direct:
        assert (direct.get(BYTES), direct.zcard(INDEX)) == (str(3 * size).encode(), 3)
        assert 0 < direct.pttl(PREFIX + (b"\4" * 32).hex()) <= 100_000


def test_a_large_translation_is_not_shared(redis, monkeypatch):
    monkeypatch.setattr(result_cache, "LARGEST", 10)
    assert not any(shared(redis))
