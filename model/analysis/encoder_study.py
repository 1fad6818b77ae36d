"""What the order of the words changes in the output of an encoder, with positions and without, by the PyTorch model.

This is a process of its own, because the API process does not import torch: each line of standard input is the arguments
of `study` in JSON, each line of standard output its result.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
import torch
from torch import Tensor, nn

from model.checkpoint import load_model
from model.model_folder import read_folder
from model.transformer import Transformer


@torch.inference_mode()
def study(folder: str, ids: Sequence[int], order: Sequence[int]) -> dict[str, list[float]]:
    """Returns how far the output of each of the tokens `ids` moves, relative to its length, if they stand in `order`."""
    model = load_model(read_folder(Path(folder)))
    moved = _moved(model, ids, order)
    remove_positions(model)
    return {"moved": moved, "moved_without_positions": _moved(model, ids, order)}


def encode(model: Transformer, ids: Sequence[int]) -> Tensor:
    """Returns the output of the encoder for one sentence, (tokens, d_model)."""
    source = torch.tensor([list(ids)])
    return model.encode(source, torch.ones_like(source, dtype=torch.bool))[0]


def remove_positions(model: Transformer) -> None:
    """Makes the encoder ignore the order of tokens: its positions are a learned table of zeros. Rotary embeddings, ALiBi
    and windows, which depend on distances, go too."""
    model.config = dataclasses.replace(model.config, positions="learned", window=None)
    rows, width = model.config.max_length, model.config.d_model
    model.positions = nn.Embedding(rows, width, _weight=torch.zeros(rows, width))
    for layer in model.encoder:
        layer.rotary = False  # type: ignore[assignment]


def _moved(model: Transformer, ids: Sequence[int], order: Sequence[int]) -> list[float]:
    first = encode(model, ids)
    second = encode(model, [ids[i] for i in order])[torch.tensor(order).argsort()]  # in the order of `ids` again
    distances: list[float] = ((first - second).norm(dim=-1) / first.norm(dim=-1)).tolist()
    return distances


if __name__ == "__main__":
    torch.set_num_threads(1)  # translations need the other cores
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(orjson.dumps(study(**orjson.loads(line))) + b"\n")
        sys.stdout.buffer.flush()
