"""The glossaries of all callers: bounds, ownership, and the index of terms for a translation."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from server.errors import Forbidden, InvalidRequest, NotFound, PayloadTooLarge
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
from server.text.glossary import Entry, TermIndex

EVERYONE = ""
"""Owner of the glossaries that every caller may use."""
_INDEXES = 16
"""Indexes of terms that are kept in memory."""


class GlossaryStore(Protocol):
    """Storage of glossaries, as SQLiteGlossaries documents it. The languages are without region."""

    def transaction(self) -> AbstractContextManager[None]: ...
    def add(self, glossary: Glossary) -> None: ...
    def find(self, id: str) -> Glossary | None: ...
    def of(self, owners: Sequence[str] | None = None) -> list[Glossary]: ...
    def rename(self, id: str, name: str) -> None: ...
    def delete(self, id: str) -> None: ...
    def put(self, id: str, dictionary: Dictionary) -> None: ...
    def remove(self, id: str, source: str, target: str) -> None: ...
    def dictionary(self, id: str, source: str, target: str) -> Dictionary | None: ...
    def close(self) -> None: ...


class Glossaries:
    """Creates, changes and finds glossaries. `owner` is the id of the caller's key, or EVERYONE.

    A caller uses its own glossaries and those of everyone, and changes its own. Raises NotFound for any other id. May be
    used by several threads.
    """

    def __init__(self, store: GlossaryStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._indexes: OrderedDict[tuple[object, ...], TermIndex] = OrderedDict()

    def create(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Raises InvalidRequest or PayloadTooLarge beyond a bound."""
        glossary = Glossary(secrets.token_hex(16), owner, check_name(name), time.time())
        pairs = {(one.source, one.target) for one in dictionaries}
        if len(pairs) < len(dictionaries):
            raise InvalidRequest("A glossary has at most one dictionary for a language pair.")
        with self.store.transaction():
            if len(self.store.of([owner])) >= GLOSSARIES:
                raise InvalidRequest(f"There are {GLOSSARIES} glossaries, which is the limit; delete one of them.")
            self.store.add(glossary)
            for dictionary in dictionaries:
                self._put(glossary, dictionary)
            return self._found(glossary.id)

    def owner(self, id: str) -> str:
        """Returns the owner of a glossary. Raises NotFound."""
        return self._found(id).owner

    def all(self, owner: str) -> list[Glossary]:
        """Returns the glossaries that a caller may use, oldest first."""
        return self.store.of(sorted({owner, EVERYONE}))

    def find(self, owner: str, id: str) -> Glossary:
        """Returns a glossary that the caller may use. Raises NotFound."""
        glossary = self._found(id)
        if glossary.owner not in (owner, EVERYONE):
            raise NotFound("There is no glossary with this id.")
        return glossary

    def dictionary(self, owner: str, id: str, source: str, target: str) -> Dictionary:
        """Returns the entries of a language pair. Raises NotFound."""
        found = self.store.dictionary(self.find(owner, id).id, base_language(source), base_language(target))
        if found is None:
            raise NotFound("The glossary has no dictionary for this language pair.")
        return found

    def rename(self, owner: str, id: str, name: str) -> None:
        """Changes the name of a glossary."""
        self.store.rename(self._own(owner, id).id, check_name(name))

    def delete(self, owner: str, id: str) -> None:
        """Deletes a glossary."""
        self.store.delete(self._own(owner, id).id)

    def put(self, owner: str, id: str, dictionary: Dictionary, merge: bool = False) -> Glossary:
        """Replaces the dictionary of a language pair; with `merge` its entries are added to those that it has."""
        with self.store.transaction():
            glossary = self._own(owner, id)
            if merge and (known := self.store.dictionary(id, dictionary.source, dictionary.target)):
                merged = {**known.entries, **dictionary.entries}
                dictionary = Dictionary(known.source, known.target, merged, dictionary.exact)
            self._put(glossary, dictionary)
            return self._found(id)

    def remove(self, owner: str, id: str, source: str, target: str) -> None:
        """Deletes the dictionary of a language pair. Raises NotFound."""
        self._own(owner, id)
        found = self.dictionary(owner, id, source, target)
        self.store.remove(id, found.source, found.target)

    def terms(self, owner: str, ids: Sequence[str], source: str, target: str) -> TermIndex:
        """Returns the terms of some glossaries for a language pair. Where several have a term, the first one counts.
        Raises NotFound, or InvalidRequest if one has no such dictionary."""
        pair = (base_language(source), base_language(target))
        found = [self.find(owner, id) for id in ids]
        infos = [next((one for one in each.dictionaries if (one.source, one.target) == pair), None) for each in found]
        if None in infos:
            raise InvalidRequest("The glossary has no dictionary for this language pair.")
        key = (pair, tuple([(each.id, info and info.revision) for each, info in zip(found, infos, strict=True)]))
        with self._lock:
            if (index := self._indexes.pop(key, None)) is None:
                index = TermIndex(self._entries([each.id for each in found], pair))
            self._indexes[key] = index
            while len(self._indexes) > _INDEXES:
                self._indexes.popitem(last=False)
            return index

    def _entries(self, ids: Sequence[str], pair: tuple[str, str]) -> list[Entry]:
        entries: dict[str, Entry] = {}
        for id in ids:
            if dictionary := self.store.dictionary(id, *pair):
                for term, translation in dictionary.entries.items():
                    entries.setdefault(term, Entry(term, translation, dictionary.exact))
        return list(entries.values())

    def _own(self, owner: str, id: str) -> Glossary:
        """Returns a glossary that the caller may change. Raises NotFound or Forbidden."""
        glossary = self.find(owner, id)
        if glossary.owner != owner:
            raise Forbidden("This glossary belongs to everyone; the operator of the server changes it.")
        return glossary

    def _found(self, id: str) -> Glossary:
        if (found := self.store.find(id)) is None:
            raise NotFound("There is no glossary with this id.")
        return found

    def _put(self, glossary: Glossary, dictionary: Dictionary) -> None:
        """Stores a dictionary within the bounds of its glossary and its owner."""
        check_entries(dictionary.entries)
        self.store.put(glossary.id, dictionary)
        dictionaries = self._found(glossary.id).dictionaries
        if len(dictionaries) > DICTIONARIES:
            raise InvalidRequest(f"A glossary has at most {DICTIONARIES} dictionaries.")
        if (count := sum([one.count for one in dictionaries])) > ENTRIES:
            raise PayloadTooLarge(f"{count:,} entries are over the limit of {ENTRIES:,} for a glossary.")
        owned = self.store.of([glossary.owner])
        if sum([one.characters for each in owned for one in each.dictionaries]) > CHARACTERS:
            raise PayloadTooLarge(f"All glossaries together must have at most {CHARACTERS:,} characters.")
