"""Runs the parts of a server in a command, without HTTP."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.access.admission import Admission
from server.config import MAX_INT, Settings
from server.engine.client.lease import Backlog
from server.engine.client.worker_pool import WorkerPool
from server.errors import Unavailable
from server.observability.logging import configure_logging
from server.services import Services
from server.translation.catalog import ModelCatalog

FLAGS = tuple(
    "weights prefer model_bytes device dtype isa threads slots shortlist prefill_tokens beam_size "
    "rerank log_level log_format".split()
)
"""Settings of such commands. The limits of `attentive serve` do not apply."""


def local_settings(arguments: argparse.Namespace) -> Settings:
    """Returns the settings and configures the log, which has only warnings by default."""
    settings = Settings.read(arguments)
    configure_logging(
        "warning" if arguments.log_level is None else settings.log_level, settings.log_format
    )
    return settings


def local_services(
    settings: Settings, workers: WorkerPool | None = None, catalog: ModelCatalog | None = None
) -> Services:
    """Returns the services of a command: without a history and without a bound on the queue."""
    return Services(
        dataclasses.replace(settings, history=False), workers, catalog, Admission(Backlog(MAX_INT))
    )


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """`async with`: the workers run and the models are loaded. Raises Unavailable if none could
    be."""
    await services.start()
    try:
        await services.loaded()
        if services.models.errors and not services.engine.workers.status().models:
            raise Unavailable(" ".join(services.models.errors.values()))
        yield
    finally:
        await services.stop()
