"""Opens a model folder for measuring: the native engine or plain torch, behind the interface that searches drive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from benchmarks.native import native_backend
from model.checkpoint import load_model
from model.config import ModelConfig
from model.folder import read_folder
from model.inference import TorchBackend
from model.search import Backend
from model.tokenizer import Tokenizer

Engine = Literal["torch", "native"]
_TORCH_PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A loaded model folder."""

    name: str
    config: ModelConfig
    tokenizer: Tokenizer
    backend: Backend
    directions: tuple[str, ...]


def open_model(
    path: Path, *, engine: Engine = "torch", precision: str = "float32", device: str = "cpu", slots: int, threads: int
) -> OpenModel:
    """Load the folder at `path`. Raises ValueError for a precision that the engine does not have."""
    torch.set_num_threads(threads)
    folder = read_folder(path)
    backend: Backend
    if engine == "native":
        backend = native_backend(folder, precision=precision, slots=slots, threads=threads)
    elif precision in _TORCH_PRECISIONS:
        backend = TorchBackend(load_model(folder, dtype=_TORCH_PRECISIONS[precision], device=device), slots)
    else:
        raise ValueError(f"The torch engine has {', '.join(_TORCH_PRECISIONS)}; {precision} needs --engine native.")
    directions = tuple(f"{source}-{target}" for source, target in folder.pairs)
    return OpenModel(folder.name, folder.model, folder.load_tokenizer(), backend, directions)
