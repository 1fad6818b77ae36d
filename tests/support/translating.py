"""Translates one text on a fake engine."""

from __future__ import annotations

import asyncio
from typing import Any

from server.config import Settings
from server.services import Services
from server.translation.catalog import ModelCatalog
from server.translation.types import Translation, TranslationRequest
from tests.support.fake_engine import FakeEngine, fake_catalog


def translated(
    engine: FakeEngine, text: str, source: str, target: str, catalog: ModelCatalog | None = None, **fields: Any
) -> Translation:
    """Returns the translation of a text. `fields` are those of the request."""

    async def scenario() -> Translation:
        services = Services(Settings(), engine, catalog or fake_catalog())
        await services.start()
        await services.loaded()
        try:
            request = TranslationRequest(texts=(text,), source=source, target=target, **fields)
            [translation] = await services.translator.translate(request)
            return translation
        finally:
            await services.stop()

    return asyncio.run(scenario())
