"""What the layers of an encoder do with a sentence and with the order of its words, by the PyTorch model.

This is a process of its own, because the API process does not import torch: each line of standard input is the arguments
of `study` in JSON, each line of standard output its result. Shapes: B sentences, S tokens of the longest, N tokens with text.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import orjson
import torch
from torch import Tensor, nn

from model.analysis.module_outputs import Passed, recorded
from model.checkpoint import load_model
from model.layers import EncoderLayer
from model.model_folder import read_folder
from model.transformer import Transformer

FOLDS = 4
_RIDGE = 0.1
"""Penalty of the regression, as a share of the mean squared length of the vectors."""
Samples = list[tuple[list[int], list[int]]]


@torch.inference_mode()
def study(folder: str, ids: list[int], order: list[int], samples: Samples) -> dict[str, Any]:
    """Returns `layers`, `order` and `position_fit` of GET /encoder for the tokens `ids`, which `order` puts in another order.
    `samples` are other sentences: the tokens, and the places of those with text."""
    model = load_model(read_folder(Path(folder)))
    layers, moved, fits = layer_numbers(model, ids), _moved(model, ids, order), _position_fits(model, samples)
    remove_positions(model)
    fit = {"sentences": len(samples), "with_positions": fits, "without_positions": _position_fits(model, samples)}
    order_study = {"pieces": order, "moved": moved, "moved_without_positions": _moved(model, ids, order)}
    return {"layers": layers, "order": order_study, "position_fit": fit if samples else None}


def encode(model: Transformer, sentences: list[list[int]]) -> tuple[Tensor, Passed]:
    """Returns the output of the encoder, (B, S, d_model), and what its modules read and returned, (B, S, ...)."""
    source = nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sentences], batch_first=True, padding_value=-1)
    with recorded(model.encoder.modules()) as passed:
        return model.encode(source.clamp(min=0), source >= 0), passed


def layer_numbers(model: Transformer, ids: list[int]) -> list[dict[str, list[float]]]:
    """Returns for each layer the lengths of the vectors that its residual connections add, and the share of active units."""
    _, passed = encode(model, [ids])
    layers = []
    for layer in cast("Iterable[EncoderLayer]", model.encoder):
        entered, _ = passed[layer.feed_forward_residual.norm if model.config.norm == "pre" else layer.feed_forward]
        vectors = {
            "carried_past_attention": passed[layer][0],
            "attention": passed[layer.self_attention.output][1],
            "carried_past_feed_forward": entered,
            "feed_forward": passed[layer.feed_forward][1],
        }
        active = (passed[layer.feed_forward.outer][0] > 0).float().mean(-1)
        layers.append(
            {name: x.norm(dim=-1)[0].tolist() for name, x in vectors.items()} | {"active": active[0].tolist()}
        )
    return layers


def remove_positions(model: Transformer) -> None:
    """Makes the encoder ignore the order of tokens: its positions are a learned table of zeros."""
    model.config = dataclasses.replace(model.config, positions="learned")
    rows, width = model.config.max_length, model.config.d_model
    model.positions = nn.Embedding(rows, width, _weight=torch.zeros(rows, width))


def _moved(model: Transformer, ids: list[int], order: list[int]) -> list[float]:
    (first, second), _ = encode(model, [ids, [ids[i] for i in order]])
    second = second[torch.tensor(order).argsort()]  # in the order of `ids` again
    distances: list[float] = ((first - second).norm(dim=-1) / first.norm(dim=-1)).tolist()
    return distances


def _position_fits(model: Transformer, samples: Samples) -> list[float]:
    if not samples:
        return []
    _, passed = encode(model, [ids for ids, _ in samples])
    states = [passed[model.encoder[0]][0], *(passed[layer][1] for layer in model.encoder)]
    sentences = torch.tensor([i for i, (_, places) in enumerate(samples) for _ in places])
    places = torch.tensor([place for _, places in samples for place in places])
    return [position_fit(state[sentences, places], places, sentences % FOLDS) for state in states]


def position_fit(x: Tensor, places: Tensor, folds: Tensor) -> float:
    """Returns R2 of the places (N,) that a linear regression reads from the vectors x (N, d_model) of one fold after it has seen
    the others: 1 is perfect, 0 is as good as the mean place, below 0 is worse."""
    x, places, error = x.double(), places.double(), 0.0
    for fold in range(FOLDS):
        seen, unseen = folds != fold, folds == fold
        centre, mean = x[seen].mean(0), places[seen].mean()
        rows = x[seen] - centre
        gram = rows @ rows.T  # the dual form: there are fewer vectors than features in wide models
        penalty = (_RIDGE * gram.trace() / len(gram) + 1e-9) * torch.eye(len(gram))
        weights = rows.T @ torch.linalg.solve(gram + penalty, places[seen] - mean)
        error += float(((x[unseen] - centre) @ weights + mean - places[unseen]).square().sum())
    return 1 - error / float((places - places.mean()).square().sum())


if __name__ == "__main__":
    torch.set_num_threads(1)  # translations need the other cores
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(orjson.dumps(study(**orjson.loads(line))) + b"\n")
        sys.stdout.buffer.flush()
