"""What attention heads are worth: by how much the loss of a model rises when they are switched off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from model.analysis.types import HeadMask, Kind


@dataclass(frozen=True, slots=True)
class HeadLosses:
    """Nats per target token over `sentences`: the `loss` with all heads, and its rise without one of the `heads`,
    [layer][head] for each kind; without all heads of one of the `layers`; and without the `others`, all layers of a kind but
    the one without which the loss rises most."""

    sentences: int
    loss: float
    heads: dict[Kind, list[list[float]]]
    layers: dict[Kind, list[float]]
    others: dict[Kind, float]


def measure_losses(
    loss: Callable[[HeadMask], float], shape: Mapping[Kind, tuple[int, int]], sentences: int
) -> HeadLosses:
    """Returns the losses of all heads. `loss` returns that of the sentences without some heads; `shape` has the number of
    layers and of heads of each kind."""
    whole = loss(())

    def rise(kind: Kind, layers: Iterable[int], heads: Iterable[int]) -> float:
        return round(loss(tuple((kind, layer, head) for layer in layers for head in heads)) - whole, 4)

    single, layers, others = dict[Kind, list[list[float]]](), dict[Kind, list[float]](), dict[Kind, float]()
    for kind, (count, number) in shape.items():
        every, heads = range(count), range(number)
        single[kind] = [[rise(kind, [layer], [head]) for head in heads] for layer in every]
        layers[kind] = [rise(kind, [layer], heads) for layer in every]
        first = layers[kind].index(max(layers[kind]))
        others[kind] = rise(kind, [layer for layer in every if layer != first], heads)
    return HeadLosses(sentences, round(whole, 4), single, layers, others)
