"""Stores glossaries with their owners and bounds, and makes the index of terms of a translation."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import orjson
from pydantic import TypeAdapter

from server.errors import Forbidden, InvalidRequest, NotFound, Overloaded, PayloadTooLarge
from server.glossaries.types import (
    CHARACTERS,
    DICTIONARIES,
    ENTRIES,
    GLOSSARIES,
    Dictionary,
    Glossary,
    base_language,
    check_entries,
    check_name,
)
from server.store.interface import Store
from server.text.glossary import Entry, TermIndex

EVERYONE = ""
"""Owner of the glossaries that every caller may use."""
_TABLE = "glossaries"
"""Table of glossaries without their entries, by id."""
_ENTRIES_TABLE = "glossaries:entries"
"""Table of the entries of dictionaries, by `entries_id`."""
_RECORD = TypeAdapter(Glossary)
_INDEXES = 16
"""Most indexes of terms in memory."""
_ATTEMPTS = 10
"""Attempts to change glossaries that others change too."""
NO_DICTIONARY = "No dictionary found for language pair."
Pair = tuple[str, str]
Change = Callable[[Glossary], Glossary | None]
"""Returns the new state of a glossary, or None to delete it."""


class Glossaries:
    """Creates, changes and finds glossaries. `owner` is the id of the caller's key, or EVERYONE. A
    caller uses its own glossaries and those of everyone, and changes its own. All methods raise
    NotFound for other ids, and StateUnreachable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indexes: OrderedDict[tuple[object, ...], TermIndex] = OrderedDict()

    async def create(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Creates a glossary. Raises InvalidRequest or PayloadTooLarge beyond a bound."""
        new = Glossary(secrets.token_hex(16), owner, check_name(name), time.time())
        if len({(dictionary.source, dictionary.target) for dictionary in dictionaries}) < len(
            dictionaries
        ):
            raise InvalidRequest("A glossary has at most one dictionary for a language pair.")
        return await self._change(owner, new.id, dictionaries=dictionaries, new=new)

    async def get(self, id: str) -> Glossary:
        """Returns a glossary of any owner. Raises NotFound."""
        if (text := await self._store.read(_TABLE, id)) is None:
            raise NotFound("There is no glossary with this id.")
        return _RECORD.validate_json(text)

    async def all(self, owner: str) -> list[Glossary]:
        """Returns the glossaries that a caller may use, oldest first."""
        return await self.of(owner, EVERYONE)

    async def of(self, *owners: str) -> list[Glossary]:
        """Returns the glossaries of these owners, or of all without any, oldest first."""
        glossaries = map(_RECORD.validate_json, (await self._store.read_all(_TABLE)).values())
        selected = [glossary for glossary in glossaries if not owners or glossary.owner in owners]
        return sorted(selected, key=lambda glossary: (glossary.created, glossary.id))

    async def find(self, owner: str, id: str) -> Glossary:
        """Returns a glossary that the caller may use. Raises NotFound."""
        glossary = await self.get(id)
        if glossary.owner not in (owner, EVERYONE):
            raise NotFound("There is no glossary with this id.")
        return glossary

    async def dictionary(self, owner: str, id: str, source: str, target: str) -> Dictionary:
        """Returns the entries of a language pair. Raises NotFound."""
        await self.find(owner, id)
        dictionary = await self._dictionary(id, (base_language(source), base_language(target)))
        if dictionary is None:
            raise NotFound(NO_DICTIONARY)
        return dictionary

    async def rename(self, owner: str, id: str, name: str) -> None:
        name = check_name(name)
        await self._change(owner, id, lambda glossary: replace(glossary, name=name))

    async def delete(self, owner: str, id: str) -> None:
        await self._change(owner, id, lambda _: None)

    async def put(
        self, owner: str, id: str, dictionary: Dictionary, merge: bool = False
    ) -> Glossary:
        """Replaces the dictionary of a language pair, or adds the entries to it (`merge`)."""
        return await self._change(owner, id, dictionaries=[dictionary], merge=merge)

    async def remove(self, owner: str, id: str, source: str, target: str) -> None:
        """Deletes the dictionary of a language pair. Raises NotFound."""
        pair = base_language(source), base_language(target)

        def change(glossary: Glossary) -> Glossary:
            kept = tuple(
                [info for info in glossary.dictionaries if (info.source, info.target) != pair]
            )
            if len(kept) == len(glossary.dictionaries):
                raise NotFound(NO_DICTIONARY)
            return replace(glossary, dictionaries=kept)

        await self._change(owner, id, change)

    async def terms(
        self,
        owner: str,
        ids: Sequence[str],
        source: str,
        target: str,
        run: Callable[..., Awaitable[TermIndex]],
    ) -> TermIndex:
        """Returns the terms of glossaries for a language pair, of which the first with a term has
        precedence. `run(entries, function, *arguments)` runs a function beside the event loop.
        Raises NotFound, or InvalidRequest if a glossary has no such dictionary."""
        pair = (base_language(source), base_language(target))
        glossaries = [await self.find(owner, id) for id in ids]
        infos = [glossary.info(*pair) for glossary in glossaries]
        if None in infos:
            raise InvalidRequest(NO_DICTIONARY)
        key = (
            pair,
            tuple([(id, info and info.revision) for id, info in zip(ids, infos, strict=True)]),
        )
        if (index := self._indexes.pop(key, None)) is None:
            entries: dict[str, Entry] = {}
            for id in ids:
                if dictionary := await self._dictionary(id, pair):
                    for term, translation in dictionary.entries.items():
                        entries.setdefault(term, Entry(term, translation, dictionary.exact))
            index = await run(len(entries), TermIndex, list(entries.values()))
        self._indexes[key] = index
        while len(self._indexes) > _INDEXES:
            self._indexes.popitem(last=False)
        return index

    async def _dictionary(self, id: str, pair: Pair) -> Dictionary | None:
        text = await self._store.read(_ENTRIES_TABLE, entries_id(id, *pair))
        if text is None:
            return None
        stored = orjson.loads(text)
        return Dictionary(*pair, dict(stored["entries"]), stored["exact"])

    async def _change(
        self,
        owner: str,
        id: str,
        change: Change = lambda glossary: glossary,
        *,
        dictionaries: Sequence[Dictionary] = (),
        merge: bool = False,
        new: Glossary | None = None,
    ) -> Glossary:
        """Stores a changed glossary of the owner, or the `new` one, with these dictionaries, and
        returns it. Repeated if a glossary has changed meanwhile. Raises NotFound or Forbidden."""
        if new is None and (await self.find(owner, id)).owner != owner:
            raise Forbidden(
                "This glossary belongs to everyone; the operator of the server changes it."
            )
        for _ in range(_ATTEMPTS):
            version = await self._store.version(_TABLE)
            others = {glossary.id: glossary for glossary in await self.of(owner)}
            if (before := others.pop(id, new)) is None:  # deleted a moment ago
                raise NotFound("There is no glossary with this id.")
            if new is not None and len(others) >= GLOSSARIES:
                raise InvalidRequest(
                    f"There are {GLOSSARIES} glossaries, which is the limit; delete one of them."
                )
            written = dictionaries
            if merge:
                written = [await self._merged(id, dictionary) for dictionary in dictionaries]
            if (after := change(before)) is not None and written:
                after = with_dictionaries(after, written, list(others.values()))
            if await self._store.write(records(before, after, written), {_TABLE: version}):
                return after or before
        raise Overloaded("The glossaries are being changed by others; try again later.", 1)

    async def _merged(self, id: str, dictionary: Dictionary) -> Dictionary:
        """Returns a dictionary with the stored entries of its pair added."""
        stored = await self._dictionary(id, (dictionary.source, dictionary.target))
        if stored is None:
            return dictionary
        return replace(dictionary, entries={**stored.entries, **dictionary.entries})


def with_dictionaries(
    glossary: Glossary, dictionaries: Sequence[Dictionary], others: Sequence[Glossary]
) -> Glossary:
    """Returns a glossary with these dictionaries. Raises InvalidRequest or PayloadTooLarge beyond
    its bounds, or those of its owner together with the `others`."""
    infos = {(info.source, info.target): info for info in glossary.dictionaries}
    for dictionary in dictionaries:
        check_entries(dictionary.entries)
        infos[dictionary.source, dictionary.target] = dictionary.info()
    if len(infos) > DICTIONARIES:
        raise InvalidRequest(f"A glossary has at most {DICTIONARIES} dictionaries.")
    if (count := sum([info.count for info in infos.values()])) > ENTRIES:
        raise PayloadTooLarge(
            f"{count:,} entries are over the limit of {ENTRIES:,} for a glossary."
        )
    changed = replace(glossary, dictionaries=tuple(infos.values()))
    if (
        sum([info.characters for glossary in (*others, changed) for info in glossary.dictionaries])
        > CHARACTERS
    ):
        raise PayloadTooLarge(
            f"All glossaries together must have at most {CHARACTERS:,} characters."
        )
    return changed


def records(
    before: Glossary, after: Glossary | None, dictionaries: Sequence[Dictionary]
) -> dict[str, dict[str, bytes | None]]:
    """Returns the records of a change, by table. Dictionaries missing in `after` are deleted."""
    id = before.id
    removed = {entries_id(id, info.source, info.target) for info in before.dictionaries}
    removed -= {
        entries_id(id, info.source, info.target) for info in (after.dictionaries if after else ())
    }
    entries: dict[str, bytes | None] = dict.fromkeys(removed)
    for dictionary in dictionaries:
        stored = {"exact": dictionary.exact, "entries": list(dictionary.entries.items())}
        entries[entries_id(id, dictionary.source, dictionary.target)] = orjson.dumps(stored)
    return {_TABLE: {id: orjson.dumps(after) if after else None}, _ENTRIES_TABLE: entries}


def entries_id(id: str, source: str, target: str) -> str:
    return f"{id} {source} {target}"
