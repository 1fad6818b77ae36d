"""A model in the worker's memory, and the backend that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from model.backends.interface import InspectableBackend
from model.model_folder import ModelFolder

EngineName = Literal["native", "eager", "cuda-graphs"]
OpenedBackend: TypeAlias = "tuple[InspectableBackend, EngineName, str | None]"
"""A backend, its name in status pages, and the reason why a faster one is not used."""


@dataclass(slots=True, eq=False)
class LoadedModel:
    """A model that is ready to decode. `reason` says why a faster backend is not used, None where there is none."""

    folder: ModelFolder
    backend: InspectableBackend
    engine: EngineName
    reason: str | None
    seconds: float
