"""Loads models and compiles the CPU backend in threads, while the worker's loop continues."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from model.backends.cpu.build import build
from model.backends.cpu.isa import CpuBackendUnavailable
from model.model_folder import FolderError
from server.engine.ipc.messages import ModelLoaded
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.backend_loader import open_model, open_on_cpu_backend
from server.engine.worker.device_config import DeviceConfig
from server.engine.worker.runner_interface import LoadedModel, LoadOutcome


@dataclass(frozen=True, slots=True)
class UpgradeOutcome:
    """The end of an attempt to move `model` from `previous` to the CPU backend: `better`, or the `reason` it failed."""

    model: str
    previous: LoadedModel
    better: LoadedModel | None
    reason: str = ""


class ModelLoader:
    """Loads for one device, one model at a time. `load`, `upgrade`, `active` and `finished` are called from the
    loop."""

    def __init__(self, device: DeviceConfig, options: WorkerOptions) -> None:
        self._device, self._options = device, options
        self._threads: list[threading.Thread] = []
        self._load_lock = threading.Lock()
        self._build_lock = threading.Lock()
        self._outcomes: SimpleQueue[LoadOutcome | UpgradeOutcome] = SimpleQueue()

    def load(self, model: str, folder: str) -> None:
        """Starts to load a folder."""
        self._start(self._load, model, folder)

    def upgrade(self, model: str, loaded: LoadedModel) -> None:
        """Starts to compile the CPU backend and to load the same model on it."""
        self._start(self._upgrade, model, loaded)

    def active(self) -> bool:
        """Returns whether `finished` may return something soon."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return bool(self._threads) or not self._outcomes.empty()

    def finished(self) -> list[LoadOutcome | UpgradeOutcome]:
        """Returns the outcomes since the last call."""
        outcomes = []
        while not self._outcomes.empty():
            outcomes.append(self._outcomes.get())
        return outcomes

    def _start(self, action: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=action, args=arguments, name=action.__name__, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _load(self, model: str, folder: str) -> None:
        loaded: LoadedModel | None = None
        error: str | None = None
        with self._load_lock:
            try:
                loaded = open_model(folder, self._device, self._options)
            except FolderError as reason:
                error = str(reason).replace(folder, Path(folder).name)  # callers see it, and paths are the server's
            except Exception as reason:  # noqa: BLE001  every load is answered, whatever it raises
                traceback.print_exc()
                error = f"The model could not be loaded: {type(reason).__name__}."
            answer = ModelLoaded(model, loaded.seconds if loaded else 0.0, error)
            self._outcomes.put(LoadOutcome(model, loaded, self._device.slots, answer))

    def _upgrade(self, model: str, loaded: LoadedModel) -> None:
        with self._build_lock:
            try:
                better = open_on_cpu_backend(loaded.folder, build(isa=self._options.isa), self._device, self._options)
            except (CpuBackendUnavailable, FolderError, OSError) as reason:
                self._outcomes.put(UpgradeOutcome(model, loaded, None, str(reason)))
                return
        self._outcomes.put(UpgradeOutcome(model, loaded, better))
