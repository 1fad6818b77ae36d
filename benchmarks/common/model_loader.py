"""Loads a model folder on the CPU backend (`native`) or on torch, behind the interface that the
search uses."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model.backends.cpu.backend import Precision, open_backend
from model.backends.cpu.build import build
from model.backends.cpu.isa import Isa
from model.config import ModelConfig
from model.model_folder import Generation, ModelFolder, read_folder
from model.search.backend_interface import Backend
from model.shortlist import ShortlistUse
from model.tokenizer import Tokenizer

Engine = Literal["torch", "native"]


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A loaded model folder."""

    name: str
    config: ModelConfig
    tokenizer: Tokenizer
    backend: Backend
    directions: tuple[str, ...]
    generation: Generation


def open_model(
    path: Path,
    *,
    engine: Engine = "torch",
    precision: str = "float32",
    device: str = "cpu",
    slots: int,
    threads: int,
    isa: Isa = "auto",
    shortlist: ShortlistUse = "off",
) -> OpenModel:
    """Loads the folder at `path`; `isa` is the instruction set of the CPU backend, which alone uses
    a `shortlist`. Raises ValueError for a precision that the engine does not support."""
    folder = read_folder(path)
    if engine == "native":
        backend = _native(folder, precision, slots, threads, isa, shortlist)
    else:
        backend = _torch(folder, precision, device, slots, threads)
    directions = tuple(f"{source}-{target}" for source, target in folder.pairs)
    return OpenModel(
        folder.name, folder.model, folder.load_tokenizer(), backend, directions, folder.generation
    )


def _native(
    folder: ModelFolder, precision: str, slots: int, threads: int, isa: Isa, shortlist: ShortlistUse
) -> Backend:
    if precision not in ("float32", "int8"):
        raise ValueError(f"The CPU backend supports float32 and int8, not {precision}.")
    wanted: Precision = "int8" if precision == "int8" else "float32"
    return open_backend(
        folder, build(isa=isa), slots=slots, threads=threads, precision=wanted, shortlist=shortlist
    )


def _torch(folder: ModelFolder, precision: str, device: str, slots: int, threads: int) -> Backend:
    # Imported here, because the memory of processes that run without torch is measured.
    import torch

    from model.backends.torch.backend import TorchBackend
    from model.checkpoint import load_model

    if precision not in ("float32", "bfloat16", "float16"):
        raise ValueError(
            f"The torch backend supports float32, bfloat16 and float16; {precision} needs the CPU "
            "backend."
        )
    torch.set_num_threads(threads)
    transformer = load_model(folder, dtype=getattr(torch, precision), device=device)
    if device.startswith("cuda"):
        from server.engine.worker.torch_loader import gpu_backend

        backend, name, reason = gpu_backend(transformer, slots)
        # The backend is printed, so that results of the two paths cannot be confused.
        print(f"Decoding on {device}: {name}. {reason or ''}".rstrip(), file=sys.stderr)
        return backend
    return TorchBackend(transformer, slots)
