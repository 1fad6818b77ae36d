"""Translates one text on a fake engine."""

from __future__ import annotations

import asyncio
from typing import Any

from server.config import Settings
from server.services import Services
from server.translation.catalog import ModelCatalog
from server.translation.types import Translation, TranslationRequest
from tests.support.engine.fake_engine import FakeEngine, fake_catalog


def translated(
    engine: FakeEngine,
    text: str,
    source: str,
    target: str,
    catalog: ModelCatalog | None = None,
    **fields: Any,
) -> Translation:
    """Returns the translation of a text. `fields` are those of the request."""
    return measured(engine, text, source, target, catalog, **fields)[0]


def measured(
    engine: FakeEngine,
    text: str,
    source: str,
    target: str,
    catalog: ModelCatalog | None = None,
    **fields: Any,
) -> tuple[Translation, str]:
    """Returns the translation of a text and the metrics after it."""

    async def scenario() -> tuple[Translation, str]:
        services = Services(Settings(), engine, catalog or fake_catalog())
        await services.start()
        await services.loaded()
        try:
            request = TranslationRequest(texts=(text,), source=source, target=target, **fields)
            [translation] = await services.translator.translate(request)
            return translation, services.metrics.render().decode()
        finally:
            await services.stop()

    return asyncio.run(scenario())
