"""Loads folders into a pool of workers by any name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from server.engine.client.model_pool import ModelHandle
from server.engine.client.worker_pool import WorkerPool
from server.engine.ipc.messages import ModelLoaded


@dataclass(frozen=True)
class Folder:
    key: str
    folder: Path
    bytes: int = 0

    @property
    def name(self) -> str:
        return self.key


async def load(workers: WorkerPool, name: str, folder: Path) -> ModelLoaded:
    return await workers.load(ModelHandle(Folder(name, folder)))


async def unload(workers: WorkerPool, name: str) -> None:
    if (handle := workers._models.get(name)) is not None:
        await workers.unload(handle)
