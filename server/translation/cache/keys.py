"""The keys of the result cache: SHA-256 of a text and of everything else that its translation depends on.

A key holds no text. It covers the content of all models, how their workers compute, the version of the server, and every
field of the request that is not in NOT_KEYED, so that a new field is covered without a change here.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from operator import attrgetter

from server.translation.catalog import AUTO, ModelCatalog
from server.translation.types import TranslationRequest

NOT_KEYED = frozenset({"texts", "client", "weight", "deadline", "remember", "storage"})
"""Fields that do not change the translation of a text."""
_SPECIAL = frozenset({"accepted", "glossary"})
"""Fields of which only a part, or something made of them, is in the key."""
KEYED_SETTINGS = ("slots", "shortlist")
"""Settings of a server that can change its translations. A retry needs a wide beam, which few slots do not allow."""
_plain_values = attrgetter(
    *[field.name for field in fields(TranslationRequest) if field.name not in NOT_KEYED | _SPECIAL]
)


def cache_keys(
    request: TranslationRequest, catalog: ModelCatalog, computation: tuple[str, ...], server: tuple[object, ...]
) -> list[bytes]:
    """Returns one key per text of a request. `computation` says how the workers compute, `server` names the version of
    the code and the settings that change results."""
    glossary = request.glossary.fingerprint if request.glossary is not None else None
    values = [server, catalog.fingerprint, computation, glossary, _plain_values(request)]
    if request.source.strip().lower() == AUTO:
        values.append(request.accepted)
        if len(request.texts) > 1:  # their languages are detected together, each with the others as evidence
            values.append(request.texts)
    common = hashlib.sha256(f"{values!r}\n".encode())  # repr has escaped line ends and surrogates
    keys = []
    for text in request.texts:
        key = common.copy()
        key.update(text.encode("utf-8", "surrogatepass"))
        keys.append(key.digest())
    return keys
