"""Measures what the heads of a model are worth, in a process of its own.

    python -m server.inspection.head_worth

The process needs no torch where the CPU backend runs the model (see `TaskProcess`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from model.analysis.head_roles import HeadLosses, HeadRoles
from model.model_folder import FolderError, read_folder
from server.errors import Unavailable
from server.task_process import TaskProcess
from server.translation.catalog import ServedModel

log = logging.getLogger(__name__)
SECONDS = 10.0
"""Time for the losses of a model. Each sentence is scored once without each head."""
BYTES_LIMIT = 1_000_000_000
"""Largest weight files of a model that is measured."""


class HeadWorth:
    """Measures the losses of models whose roles.json has none, and keeps them in memory. Belongs to
    one event loop."""

    def __init__(self) -> None:
        self._process = TaskProcess("server.inspection.head_worth")
        self._losses: dict[str, HeadLosses | None] = {}
        """By the key of the model; None while they are measured, or where that failed."""
        self._tasks: set[asyncio.Task[None]] = set()

    def with_losses(self, model: ServedModel, roles: HeadRoles | None) -> HeadRoles | None:
        """Returns the roles with the model's losses. The first call begins to measure them and
        returns none."""
        if roles is None or roles.losses is not None or model.bytes > BYTES_LIMIT:
            return roles
        if model.key not in self._losses:
            self._losses[model.key] = None
            task = asyncio.create_task(self._measure(model))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return dataclasses.replace(roles, losses=self._losses[model.key])

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._process.close()

    async def _measure(self, model: ServedModel) -> None:
        try:
            answer = await self._process.run({"folder": str(model.folder), "seconds": SECONDS})
        except (MemoryError, TimeoutError, Unavailable):
            log.warning("the heads of %s could not be measured", model.name)
            return
        self._losses[model.key] = TypeAdapter(HeadLosses | None).validate_python(answer["losses"])


def measured(folder: str, seconds: float) -> dict[str, Any]:
    from model.head_roles import losses  # only this process computes

    try:
        worth = losses(read_folder(Path(folder)), seconds)
    except FolderError as error:
        sys.stderr.write(f"{error}\n")
        worth = None
    return {"losses": None if worth is None else dataclasses.asdict(worth)}


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(orjson.dumps(measured(**orjson.loads(line))) + b"\n")
        sys.stdout.buffer.flush()
