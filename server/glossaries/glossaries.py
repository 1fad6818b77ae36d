"""The glossaries of all callers: bounds, ownership, and the index of terms for a translation."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from server.errors import Forbidden, InvalidRequest, NotFound, Overloaded, PayloadTooLarge
from server.glossaries.types import (
    CHARACTERS,
    DICTIONARIES,
    ENTRIES,
    GLOSSARIES,
    Change,
    Dictionary,
    Glossary,
    base_language,
    check_entries,
    check_name,
    info_of,
)
from server.text.glossary import Entry, TermIndex

EVERYONE = ""
"""Owner of the glossaries that every caller may use."""
_INDEXES = 16
"""Indexes of terms that are kept in memory."""
_ATTEMPTS = 5
"""Attempts to add entries to a dictionary that others change at the same time."""
Pair = tuple[str, str]


class GlossaryStore(Protocol):
    """Storage of glossaries. The languages are without region. Raises StateUnreachable where it cannot be reached."""

    async def find(self, id: str) -> Glossary | None:
        """Returns a glossary, or None."""
        ...

    async def of(self, owners: Sequence[str] | None = None) -> list[Glossary]:
        """Returns the glossaries of some owners, or of all of them, oldest first."""
        ...

    async def dictionary(self, id: str, source: str, target: str) -> Dictionary | None:
        """Returns the entries of a language pair, or None."""
        ...

    async def write(self, owner: str, make: Callable[[Sequence[Glossary]], Change]) -> None:
        """Stores the change that `make` returns for the glossaries of an owner, as one step: the glossaries have not
        changed meanwhile. `make` may be called several times, in another thread. Its exceptions are raised, and nothing
        is stored then."""
        ...

    def close(self) -> None:
        """Closes the store."""
        ...


class Glossaries:
    """Creates, changes and finds glossaries. `owner` is the id of the caller's key, or EVERYONE.

    A caller uses its own glossaries and those of everyone, and changes its own. Raises NotFound for any other id.
    """

    def __init__(self, store: GlossaryStore) -> None:
        self.store = store
        self._indexes: OrderedDict[tuple[object, ...], TermIndex] = OrderedDict()

    async def create(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Raises InvalidRequest or PayloadTooLarge beyond a bound."""
        glossary = Glossary(secrets.token_hex(16), owner, check_name(name), time.time())
        pairs = {(one.source, one.target) for one in dictionaries}
        if len(pairs) < len(dictionaries):
            raise InvalidRequest("A glossary has at most one dictionary for a language pair.")

        def make(owned: Sequence[Glossary]) -> Change:
            if len(owned) >= GLOSSARIES:
                raise InvalidRequest(f"There are {GLOSSARIES} glossaries, which is the limit; delete one of them.")
            return with_dictionaries(glossary, dictionaries, owned)

        await self.store.write(owner, make)
        return await self._found(glossary.id)

    async def owner(self, id: str) -> str:
        """Returns the owner of a glossary. Raises NotFound."""
        return (await self._found(id)).owner

    async def all(self, owner: str) -> list[Glossary]:
        """Returns the glossaries that a caller may use, oldest first."""
        return await self.store.of(sorted({owner, EVERYONE}))

    async def find(self, owner: str, id: str) -> Glossary:
        """Returns a glossary that the caller may use. Raises NotFound."""
        glossary = await self._found(id)
        if glossary.owner not in (owner, EVERYONE):
            raise NotFound("There is no glossary with this id.")
        return glossary

    async def dictionary(self, owner: str, id: str, source: str, target: str) -> Dictionary:
        """Returns the entries of a language pair. Raises NotFound."""
        glossary = await self.find(owner, id)
        found = await self.store.dictionary(glossary.id, base_language(source), base_language(target))
        if found is None:
            raise NotFound("The glossary has no dictionary for this language pair.")
        return found

    async def rename(self, owner: str, id: str, name: str) -> None:
        """Changes the name of a glossary."""
        name = check_name(name)
        await self._change(owner, id, lambda glossary, owned: Change(id, replace(glossary, name=name)))

    async def delete(self, owner: str, id: str) -> None:
        """Deletes a glossary."""
        await self._change(owner, id, lambda glossary, owned: Change(id, None))

    async def put(self, owner: str, id: str, dictionary: Dictionary, merge: bool = False) -> Glossary:
        """Replaces the dictionary of a language pair; with `merge` its entries are added to those that it has."""
        if merge:
            await self._merge(owner, id, dictionary)
        else:
            await self._change(owner, id, lambda glossary, owned: with_dictionaries(glossary, [dictionary], owned))
        return await self._found(id)

    async def remove(self, owner: str, id: str, source: str, target: str) -> None:
        """Deletes the dictionary of a language pair. Raises NotFound."""
        pair = base_language(source), base_language(target)

        def change(glossary: Glossary, owned: Sequence[Glossary]) -> Change:
            kept = tuple([one for one in glossary.dictionaries if (one.source, one.target) != pair])
            if len(kept) == len(glossary.dictionaries):
                raise NotFound("The glossary has no dictionary for this language pair.")
            return Change(id, replace(glossary, dictionaries=kept))

        await self._change(owner, id, change)

    async def terms(self, owner: str, ids: Sequence[str], source: str, target: str) -> TermIndex:
        """Returns the terms of some glossaries for a language pair. Where several have a term, the first one counts.
        Raises NotFound, or InvalidRequest if one has no such dictionary."""
        pair = (base_language(source), base_language(target))
        found = [await self.find(owner, id) for id in ids]
        infos = [each.info(*pair) for each in found]
        if None in infos:
            raise InvalidRequest("The glossary has no dictionary for this language pair.")
        key = (pair, tuple([(each.id, info and info.revision) for each, info in zip(found, infos, strict=True)]))
        if (index := self._indexes.pop(key, None)) is None:
            entries = await self._entries([each.id for each in found], pair)
            index = await asyncio.to_thread(TermIndex, entries)  # takes long for many entries
        self._indexes[key] = index
        while len(self._indexes) > _INDEXES:
            self._indexes.popitem(last=False)
        return index

    async def _entries(self, ids: Sequence[str], pair: Pair) -> list[Entry]:
        entries: dict[str, Entry] = {}
        for id in ids:
            if dictionary := await self.store.dictionary(id, *pair):
                for term, translation in dictionary.entries.items():
                    entries.setdefault(term, Entry(term, translation, dictionary.exact))
        return list(entries.values())

    async def _merge(self, owner: str, id: str, dictionary: Dictionary) -> None:
        for _ in range(_ATTEMPTS):
            before = (await self._own(owner, id)).info(dictionary.source, dictionary.target)
            known = await self.store.dictionary(id, dictionary.source, dictionary.target)
            merged = {**known.entries, **dictionary.entries} if known else dictionary.entries
            result = Dictionary(dictionary.source, dictionary.target, merged, dictionary.exact)

            def change(glossary: Glossary, owned: Sequence[Glossary]) -> Change:
                if glossary.info(result.source, result.target) != before:  # noqa: B023  called in this iteration
                    raise _ChangedMeanwhile
                return with_dictionaries(glossary, [result], owned)  # noqa: B023

            try:
                await self._change(owner, id, change)
            except _ChangedMeanwhile:
                continue
            return
        raise Overloaded("The glossary is being changed by others; try again later.", 1)

    async def _change(self, owner: str, id: str, change: Callable[[Glossary, Sequence[Glossary]], Change]) -> None:
        """Stores a change of a glossary of the owner. Raises NotFound or Forbidden for another one."""
        await self._own(owner, id)

        def make(owned: Sequence[Glossary]) -> Change:
            glossary = next((one for one in owned if one.id == id), None)
            if glossary is None:  # deleted a moment ago
                raise NotFound("There is no glossary with this id.")
            return change(glossary, owned)

        await self.store.write(owner, make)

    async def _own(self, owner: str, id: str) -> Glossary:
        """Returns a glossary that the caller may change. Raises NotFound or Forbidden."""
        glossary = await self.find(owner, id)
        if glossary.owner != owner:
            raise Forbidden("This glossary belongs to everyone; the operator of the server changes it.")
        return glossary

    async def _found(self, id: str) -> Glossary:
        if (found := await self.store.find(id)) is None:
            raise NotFound("There is no glossary with this id.")
        return found


class _ChangedMeanwhile(Exception):
    """The dictionary that a request adds to is no longer the one that it read."""


def with_dictionaries(glossary: Glossary, dictionaries: Sequence[Dictionary], owned: Sequence[Glossary]) -> Change:
    """Returns the change that stores dictionaries in a glossary, within the bounds of the glossary and of the owner,
    whose glossaries are `owned`. Raises InvalidRequest or PayloadTooLarge."""
    infos = {(one.source, one.target): one for one in glossary.dictionaries}
    for dictionary in dictionaries:
        check_entries(dictionary.entries)
        infos[dictionary.source, dictionary.target] = info_of(dictionary)
    if len(infos) > DICTIONARIES:
        raise InvalidRequest(f"A glossary has at most {DICTIONARIES} dictionaries.")
    if (count := sum([one.count for one in infos.values()])) > ENTRIES:
        raise PayloadTooLarge(f"{count:,} entries are over the limit of {ENTRIES:,} for a glossary.")
    changed = replace(glossary, dictionaries=tuple([infos[pair] for pair in sorted(infos)]))
    others = [one for one in owned if one.id != glossary.id]
    if sum([one.characters for each in (*others, changed) for one in each.dictionaries]) > CHARACTERS:
        raise PayloadTooLarge(f"All glossaries together must have at most {CHARACTERS:,} characters.")
    return Change(glossary.id, changed, tuple(dictionaries))
