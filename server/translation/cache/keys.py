"""The keys of the result cache: SHA-256 of a text and of everything else that its translation depends on.

A key holds no text. It covers the content of all models, how their workers compute, the version of the server, and every
field of the request that is not in NOT_KEYED, so that a new field is covered without a change here.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from operator import attrgetter
from typing import Any

from server.translation.catalog import AUTO, ModelCatalog
from server.translation.types import TranslationRequest

NOT_KEYED = frozenset({"texts", "client", "weight", "deadline", "remember", "storage"})
"""Fields that do not change the translation of a text."""
_SPECIAL = frozenset({"accepted", "glossary"})
"""Fields of which only a part, or something made of them, is in the key."""
KEYED_SETTINGS = ("slots", "shortlist")
"""Settings of a server that can change its translations. A retry needs a wide beam, which few slots do not allow."""
_plain_values = attrgetter(*[one.name for one in fields(TranslationRequest) if one.name not in NOT_KEYED | _SPECIAL])
_SEEDS = 64
_SEED_CHARACTERS = 2_000
"""Number and largest size of the combinations of options whose hash is kept."""


class CacheKeys:
    """Makes the keys of one server. `server` names the version of its code and the settings that change results."""

    def __init__(self, *server: object) -> None:
        self._server = repr(server)
        self._seeds: dict[tuple[Any, ...], Any] = {}

    def of(self, request: TranslationRequest, catalog: ModelCatalog, computation: tuple[str, ...]) -> list[bytes]:
        """Returns one key per text of a request. `computation` says how the workers compute."""
        texts = request.texts
        glossary = request.glossary.fingerprint if request.glossary is not None else None
        values = (catalog.fingerprint, computation, glossary, _plain_values(request))
        if request.source.strip().lower() != AUTO:
            seed = self._seed(values)
        elif len(texts) == 1:
            seed = self._seed((*values, request.accepted))
        else:  # the languages of the texts are detected together, each with the others as evidence
            seed = self._hash(repr((*values, request.accepted, texts)))
        keys = []
        for text in texts:
            key = seed.copy()
            key.update(text.encode("utf-8", "surrogatepass"))
            keys.append(key.digest())
        return keys

    def _seed(self, values: tuple[Any, ...]) -> Any:
        """Returns the hash of everything but the text, from the ones that are kept if it is there."""
        seed = self._seeds.get(values)
        if seed is None:
            plain = repr(values)
            seed = self._hash(plain)
            if len(plain) <= _SEED_CHARACTERS:
                if len(self._seeds) >= _SEEDS:
                    self._seeds.clear()
                self._seeds[values] = seed
        return seed

    def _hash(self, plain: str) -> Any:
        return hashlib.sha256(f"{self._server} {plain}\n".encode())  # repr has escaped line ends and surrogates
