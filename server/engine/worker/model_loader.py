"""Loads models in threads, while the worker's loop continues."""

from __future__ import annotations

import threading
import traceback
from pathlib import Path
from queue import SimpleQueue

from model.model_folder import FolderError
from server.engine.ipc.messages import ModelLoaded
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.backend_loader import LoadedModel, open_model
from server.engine.worker.device_config import DeviceConfig


class ModelLoader:
    """Loads for one device, one model at a time. `load`, `active` and `finished` are called from the loop."""

    def __init__(self, device: DeviceConfig, options: WorkerOptions) -> None:
        self._device, self._options = device, options
        self._unfinished = 0
        self._lock = threading.Lock()
        self._outcomes: SimpleQueue[tuple[ModelLoaded, LoadedModel | None]] = SimpleQueue()

    def load(self, model: str, folder: str) -> None:
        """Starts to load a folder."""
        self._unfinished += 1
        threading.Thread(target=self._load, args=(model, folder), name="load", daemon=True).start()

    def active(self) -> bool:
        """Returns whether `finished` may return something soon."""
        return self._unfinished > 0

    def finished(self) -> list[tuple[ModelLoaded, LoadedModel | None]]:
        """Returns the loads that ended since the last call, each with its model or, in the message, the error."""
        outcomes = []
        while not self._outcomes.empty():
            outcomes.append(self._outcomes.get())
        self._unfinished -= len(outcomes)
        return outcomes

    def _load(self, model: str, folder: str) -> None:
        loaded: LoadedModel | None = None
        error: str | None = None
        with self._lock:
            try:
                loaded = open_model(folder, self._device, self._options)
            except FolderError as reason:
                error = str(reason).replace(folder, Path(folder).name)  # callers see it, and paths are the server's
            except Exception as reason:  # noqa: BLE001  every load is answered, whatever it raises
                traceback.print_exc()
                error = f"The model could not be loaded: {type(reason).__name__}."
        self._outcomes.put((ModelLoaded(model, loaded.seconds if loaded else 0.0, error), loaded))
