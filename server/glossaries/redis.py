"""Glossaries in Redis, shared by several servers."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import orjson
from redis.asyncio import Redis

from server.errors import Overloaded, StateUnreachable
from server.glossaries.types import Change, Dictionary, DictionaryInfo, Glossary
from server.state.redis import RedisState, Script

INFOS = "attentive:glossaries:1"
"""A hash: id -> glossary without entries, as JSON."""
ENTRIES = INFOS + ":entries"
"""A hash: "id source target" -> the entries of a dictionary as JSON."""
OWNED = INFOS + ":of:"
"""Prefix of the sets of ids, one for each owner."""
VERSION = INFOS + ":version:"
"""Prefix of random texts, one for each owner, that change with its glossaries."""
SECONDS = 2.0
"""Time limit of operations on entries, which may have several megabytes."""
ATTEMPTS = 10
READ = Script("""
local ids = redis.call('SMEMBERS', KEYS[1])
return {redis.call('GET', KEYS[2]) or '', #ids > 0 and redis.call('HMGET', KEYS[3], unpack(ids)) or {}}
""")
"""Returns the version of an owner, and its glossaries."""
WRITE = """
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
local id, info, removed = ARGV[3], ARGV[4], tonumber(ARGV[5])
if info == '' then
  redis.call('SREM', KEYS[1], id)
  redis.call('HDEL', KEYS[3], id)
else
  redis.call('SADD', KEYS[1], id)
  redis.call('HSET', KEYS[3], id, info)
end
for i = 6, 5 + removed do redis.call('HDEL', KEYS[4], ARGV[i]) end
for i = 6 + removed, #ARGV, 2 do redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) end
return 1
"""
"""Stores a change if the version of the owner is still the one that was read."""
Result = TypeVar("Result")


class RedisGlossaries:
    """A GlossaryStore. Raises StateUnreachable where Redis cannot be reached."""

    def __init__(self, state: RedisState) -> None:
        self._state = state

    async def find(self, id: str) -> Glossary | None:
        """Returns a glossary, or None."""
        text = await reached(self._state.execute("HGET", INFOS, id))
        return None if text is None else parse(text)

    async def of(self, owners: Sequence[str] | None = None) -> list[Glossary]:
        """Returns the glossaries of some owners, or of all of them, oldest first."""
        if owners is None:
            texts = await reached(self._state.execute("HVALS", INFOS))
            found = [parse(text) for text in texts]
        else:
            found = [one for owner in owners for one in (await self._read(owner))[1]]
        return sorted(found, key=lambda one: (one.created, one.id))

    async def dictionary(self, id: str, source: str, target: str) -> Dictionary | None:
        """Returns the entries of a language pair, or None."""

        def read(client: Redis) -> Awaitable[bytes | None]:
            answer: Any = client.hget(ENTRIES, field(id, source, target))
            awaitable: Awaitable[bytes | None] = answer
            return awaitable

        text = await reached(self._state.run(read, SECONDS))
        if text is None:
            return None
        stored = orjson.loads(text)
        return Dictionary(source, target, dict(stored["entries"]), stored["exact"])

    async def write(self, owner: str, make: Callable[[Sequence[Glossary]], Change]) -> None:
        """Stores a change as one step, at the next attempt where another server changed glossaries of the owner."""
        keys = [OWNED + owner, VERSION + owner, INFOS, ENTRIES]
        for _ in range(ATTEMPTS):
            version, owned = await self._read(owner)
            change = make(owned)
            before = next((one for one in owned if one.id == change.id), None)
            arguments = [version, secrets.token_hex(8), *described(change, before)]

            def operation(client: Redis) -> Awaitable[int]:
                answer: Awaitable[int] = client.register_script(WRITE)(keys=keys, args=arguments)  # noqa: B023
                return answer

            if await reached(self._state.run(operation, SECONDS)):
                return
        raise Overloaded("The glossaries are being changed by others; try again later.", 1)

    def close(self) -> None:
        """Does nothing: the connection is closed with the state."""

    async def _read(self, owner: str) -> tuple[str, list[Glossary]]:
        version, texts = await reached(self._state.evaluate(READ, [OWNED + owner, VERSION + owner, INFOS]))
        return version.decode(), [parse(text) for text in texts if text is not None]


async def reached(operation: Awaitable[Result]) -> Result:
    """Returns the result. Raises StateUnreachable with a sentence about glossaries."""
    try:
        return await operation
    except StateUnreachable:
        raise StateUnreachable("The glossaries cannot be reached now; try again later.") from None


def described(change: Change, before: Glossary | None) -> list[str | bytes | int]:
    """Returns the arguments of WRITE from the id on."""
    glossary = change.glossary
    pairs = {(one.source, one.target) for one in before.dictionaries} if before else set()
    kept = {(one.source, one.target) for one in glossary.dictionaries} if glossary else set()
    removed = [field(change.id, *pair) for pair in sorted(pairs - kept)]
    added: list[str | bytes] = []
    for one in change.dictionaries:
        entries = orjson.dumps({"exact": one.exact, "entries": list(one.entries.items())})
        added += [field(change.id, one.source, one.target), entries]
    return [change.id, orjson.dumps(glossary) if glossary else "", len(removed), *removed, *added]


def field(id: str, source: str, target: str) -> str:
    """Returns the field of a dictionary in ENTRIES."""
    return f"{id} {source} {target}"


def parse(text: bytes) -> Glossary:
    """Returns a glossary of INFOS."""
    stored = orjson.loads(text)
    infos = tuple([DictionaryInfo(**info) for info in stored.pop("dictionaries")])
    return dataclasses.replace(Glossary(**stored), dictionaries=infos)
