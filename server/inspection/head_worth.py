"""What the heads of a model are worth, measured when somebody first looks at the model, in a
process of its own.

    python -m server.inspection.head_worth

The process reads a task from each line of its standard input (see `TaskProcess`) and needs no torch
where the CPU backend runs the model.
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
"""Size of the weight files of the largest model that is measured."""


class HeadWorth:
    """The losses of models whose roles.json has none. They are kept in memory. Belongs to one event
    loop."""

    def __init__(self) -> None:
        self._process = TaskProcess("server.inspection.head_worth")
        self._losses: dict[str, HeadLosses | None] = {}
        """By the key of the model; None while they are measured, and where they cannot be."""
        self._tasks: set[asyncio.Task[None]] = set()

    def with_losses(self, model: ServedModel, roles: HeadRoles | None) -> HeadRoles | None:
        """Returns the roles of a model with its losses, without them at the first look, which
        begins to measure them."""
        if roles is None or roles.losses is not None or model.bytes > BYTES_LIMIT:
            return roles
        if model.key not in self._losses:
            self._losses[model.key] = None
            task = asyncio.create_task(self._measure(model))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return dataclasses.replace(roles, losses=self._losses[model.key])

    async def close(self) -> None:
        """Ends the process."""
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
    """Returns the answer to a task."""
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
