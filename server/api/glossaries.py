"""The glossary of a translation request, and the owner of a caller's glossaries."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from server.access.authentication import Caller
from server.api.dependencies import enter, services_of
from server.api.schemas.glossaries import GlossaryPair
from server.errors import Forbidden, InvalidRequest
from server.text.glossary import Entry, TermIndex
from server.translation.catalog import AUTO


async def terms_of(
    request: Request, caller: Caller, ids: Sequence[str], source: str | None, target: str
) -> TermIndex | None:
    """Returns the terms of the glossaries for a language pair; None without ids. Raises NotFound, UnsupportedLanguage,
    or InvalidRequest if the source language is not named or a glossary lacks the pair."""
    if not ids:
        return None
    if source is None or source.strip().lower() in ("", AUTO):
        raise InvalidRequest("A glossary needs the source language; name it.")
    services = services_of(request)
    catalog = services.translator.catalog
    pair = (catalog.source(source), catalog.target(target))
    return await services.glossaries.terms(caller.owner, ids, *pair)


async def inline_or_stored(
    request: Request, caller: Caller, glossary: str | Sequence[GlossaryPair] | None, source: str, target: str
) -> TermIndex | None:
    """Returns the terms of the parameter `glossary`: an id, or pairs."""
    if glossary is None or isinstance(glossary, str):
        return await terms_of(request, caller, [glossary] if glossary else [], source, target)
    return TermIndex([Entry(pair.source, pair.target, pair.exact) for pair in glossary if pair.target.strip()])


async def owner_of(request: Request, key: str | None, change: bool = False) -> str:
    """Counts the request and returns the owner of the caller's glossaries. Raises Forbidden if it wants to `change` them
    without a key where keys exist."""
    caller = await enter(request, 0, key)
    if change and caller.key is None and await services_of(request).authenticator.has_keys():
        raise Forbidden("Only callers with an API key have glossaries of their own here.")
    return caller.owner
