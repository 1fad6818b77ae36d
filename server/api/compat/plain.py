"""Translation for interfaces that know only texts and two languages."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from server.access.authentication import Caller
from server.api.dependencies import check_texts, enter, services_of, translation_request
from server.translation.catalog import AUTO
from server.translation.types import Format, Translation


async def admit(request: Request, texts: Sequence[str], key: str | None, name: str) -> Caller:
    """Checks the texts of the parameter `name`, and returns the caller. Raises AttentiveError."""
    check_texts(tuple(texts), services_of(request).settings, name=name)
    return await enter(request, sum(map(len, texts)), key)


async def translated(
    request: Request, caller: Caller, texts: Sequence[str], source: str | None, target: str, format: Format = "text"
) -> list[Translation]:
    """Translates the texts, from a detected language where `source` is None. Raises AttentiveError."""
    work = translation_request(
        request,
        caller,
        texts=tuple(texts),
        source=source or AUTO,
        target=target,
        format=format,
    )
    return await services_of(request).translator.translate(work)
