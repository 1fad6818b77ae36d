"""What the layers of an encoder do with a sentence, computed by the PyTorch model in float32.

This is a process of its own, because the API process does not import torch: each line of standard input is the arguments
of `study` in JSON, each line of standard output its result. Shapes: S source length, F units of a feed-forward network.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import torch
from torch import Tensor, nn

from model.checkpoint import load_model
from model.model_folder import read_folder
from model.transformer import Transformer

FOLDS = 4
_UNITS, _PIECES = 4, 3
"""Units that are named in each layer, and pieces of each unit."""
_RIDGE = 0.1
"""Penalty of the regression, as a share of the mean variance of a sentence's vectors times the number of vectors."""
Records = list[dict[str, tuple[Tensor, Tensor]]]
"""For each layer, what the layer ("") and some modules in it read and returned, (S, ...)."""


@torch.inference_mode()
def study(
    folder: str,
    ids: Sequence[int],
    order: Sequence[int],
    text_pieces: Sequence[int],
    samples: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> dict[str, Any]:
    """Returns the layers of the encoder for the tokens `ids`, what another `order` of them changes, and how well places are
    read from vectors, as in GET /encoder. `text_pieces` are the places of pieces with text; `samples` are other sentences,
    each with its tokens and text pieces."""
    model = load_model(read_folder(Path(folder)))
    records, _ = encode(model, ids)
    moved, fit = _moved(model, ids, order), _position_fits(model, samples)
    remove_positions(model)
    return {
        "layers": [_layer(record, model.config.norm == "pre", text_pieces) for record in records],
        "moved": moved,
        "moved_without_positions": _moved(model, ids, order),
        "with_positions": fit,
        "without_positions": _position_fits(model, samples),
    }


def encode(model: Transformer, ids: Sequence[int]) -> tuple[Records, Tensor]:
    """Returns the records of all layers, and the encoder's output (S, d_model)."""
    records: Records = [{} for _ in model.encoder]
    hooks = []
    for record, layer in zip(records, model.encoder, strict=True):
        for name in ("", "self_attention.output", "feed_forward", "feed_forward.outer"):

            def keep(_: nn.Module, inputs: Any, output: Any, record: Any = record, name: str = name) -> None:
                record[name] = inputs[0][0], (output[0] if name == "" else output)[0]

            hooks.append(layer.get_submodule(name).register_forward_hook(keep))
    source = torch.tensor([list(ids)])
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    for hook in hooks:
        hook.remove()
    return records, memory[0]


def remove_positions(model: Transformer) -> None:
    """Makes the encoder ignore the order of tokens: its positions are a learned table of zeros. Rotary embeddings, ALiBi
    and windows, which depend on distances, go too."""
    model.config = dataclasses.replace(model.config, positions="learned", window=None)
    rows, width = model.config.max_length, model.config.d_model
    model.positions = nn.Embedding(rows, width, _weight=torch.zeros(rows, width))
    for layer in model.encoder:
        layer.rotary = False  # type: ignore[assignment]


def _layer(record: dict[str, tuple[Tensor, Tensor]], pre_norm: bool, text_pieces: Sequence[int]) -> dict[str, Any]:
    carried, entered = record[""][0], record["feed_forward"][0]
    attention, feed_forward = record["self_attention.output"][1], record["feed_forward"][1]
    vectors = {
        "carried_past_attention": carried,
        "attention": attention,
        "carried_past_feed_forward": carried + attention if pre_norm else entered,
        "feed_forward": feed_forward,
    }
    outputs = record["feed_forward.outer"][0]  # (S, F)
    firing = []
    if text_pieces:
        outputs_on_text = outputs[list(text_pieces)]
        for unit in outputs_on_text.amax(0).topk(min(_UNITS, outputs.shape[1])).indices.tolist():
            strongest = outputs_on_text[:, unit].topk(min(_PIECES, len(text_pieces)))
            pairs = zip(strongest.indices.tolist(), strongest.values.tolist(), strict=True)
            firing.append({"unit": unit, "pieces": [(text_pieces[i], round(v, 4)) for i, v in pairs if v > 0]})
    lengths = {name: vector.norm(dim=-1).tolist() for name, vector in vectors.items()}
    return {**lengths, "active": (outputs > 0).float().mean(1).tolist(), "units": firing}


def _moved(model: Transformer, ids: Sequence[int], order: Sequence[int]) -> list[float]:
    """Returns how far each token's output moves in another order, relative to its length."""
    first, second = encode(model, ids)[1], encode(model, [ids[i] for i in order])[1]
    distance: list[float] = ((first[list(order)] - second).norm(dim=-1) / first[list(order)].norm(dim=-1)).tolist()
    return [distance[order.index(i)] for i in range(len(order))]


def _position_fits(model: Transformer, samples: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float] | None:
    """Returns R2 of the place of a token in its sentence, read from the embedding and from each layer."""
    if not samples:
        return None
    encoded = [encode(model, ids)[0] for ids, _ in samples]
    places = [torch.tensor(list(pieces)) for _, pieces in samples]
    layers = [[records[0][""][0] for records in encoded]]
    layers += [[records[i][""][1] for records in encoded] for i in range(len(model.encoder))]
    return [position_fit([x[at] for x, at in zip(layer, places, strict=True)], places) for layer in layers]


def position_fit(vectors: Sequence[Tensor], places: Sequence[Tensor]) -> float:
    """Returns R2 of the places (S,) that a linear regression reads from vectors (S, d_model), on sentences that it has not
    seen: 1 is perfect, 0 is as good as the mean place, below 0 is worse. Takes at least FOLDS sentences."""
    error = total = 0.0
    mean = torch.cat(list(places)).double().mean()
    for fold in range(FOLDS):
        x, y = (
            torch.cat([row for i, row in enumerate(rows) if i % FOLDS != fold]).double() for rows in (vectors, places)
        )
        unseen, truth = (torch.cat(list(rows[fold::FOLDS])).double() for rows in (vectors, places))
        centre, x = x.mean(0), x - x.mean(0)
        gram = x @ x.T  # the dual form: there are fewer vectors than features in wide models
        penalty = _RIDGE * gram.trace() / len(x) + 1e-9
        weights = x.T @ torch.linalg.solve(gram + penalty * torch.eye(len(x)), y - y.mean())
        error += float((((unseen - centre) @ weights + y.mean() - truth) ** 2).sum())
        total += float(((truth - mean) ** 2).sum())
    return 1 - error / total if total else 0.0


if __name__ == "__main__":
    torch.set_num_threads(1)  # translations need the other cores
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(orjson.dumps(study(**orjson.loads(line))) + b"\n")
        sys.stdout.buffer.flush()
