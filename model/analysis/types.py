"""Results of an attention request: attention weights, token scores, best candidates. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig

Kind = Literal["encoder", "decoder", "cross"]

Head = tuple[str, int, int]
"""(kind, layer, head) with a Kind, counted from 0."""

HeadMask = tuple[Head, ...]
"""Heads whose output is set to 0."""

KINDS: tuple[Kind, ...] = ("cross", "encoder", "decoder")

SOFT = ("soft", "reading")
NARROW_FROM = 1 << 16
"""Numbers of `soft` and of `reading` beyond which they are sent in float16."""

CANDIDATES = 8
"""Number of best tokens reported for each target position."""


_MANY = 1 << 16
"""Zeros beyond which they are views of one."""
Layers = tuple[int, ...] | None
"""Numbers of layers; None for all."""


class Followed(NamedTuple):
    """Layer and head of an attention, from 0, whose tensors `names` are requested, all for ().
    `position` is a row: a source token of the encoder or an input of the decoder; None for all
    rows."""

    part: Kind
    layer: int
    head: int = 0
    position: int | None = None
    names: tuple[str, ...] = ()

    @property
    def side(self) -> Literal["encoder", "decoder"]:
        return "encoder" if self.part == "encoder" else "decoder"

    @property
    def attention(self) -> Literal["self", "cross"]:
        """The sublayer of the head."""
        return "cross" if self.part == "cross" else "self"

    def takes(self, *names: str) -> bool:
        """Returns whether one of these is requested."""
        return not self.names or not set(self.names).isdisjoint(names)

    @property
    def vectors_of(self) -> Head | None:
        """The head whose queries, keys and values are needed."""
        wanted = self.takes(
            *(f"{self.attention}.{name}" for name in ("query", "key", "value", "scores", "weights"))
        )
        return (self.part, self.layer, self.head) if wanted else None

    @property
    def choice(self) -> MapChoice:
        """What a forced pass computes for it."""
        encoder, decoder, cross = (
            (self.layer,) if kind == self.part else () for kind in ("encoder", "decoder", "cross")
        )
        return MapChoice(encoder, decoder, cross, heads=(self.head,), products=False, followed=self)


@dataclass(frozen=True, slots=True)
class MapChoice:
    """The arrays that a forced pass computes and returns. By kind, the layers whose maps are requested, and of
    these the `heads` (None for all). `soft` is the layer of cross-attention whose contributions are
    requested, divided by their sum over the source; with `shift` in the row after the token's, and
    with `reading` also the weights of this layer and of the last, averaged over the heads
    (`attention_alignment`). `products` asks for the value products of the layers of `cross`,
    `scores` for scores and candidates. `followed` is a layer whose tensors are requested
    (`model.analysis.tensors`), with `scores`."""

    encoder: Layers = None
    decoder: Layers = None
    cross: Layers = None
    heads: tuple[int, ...] | None = None
    soft: int | None = None
    shift: bool = False
    reading: bool = False
    products: bool = True
    scores: bool = True
    followed: Followed | None = None

    @property
    def value_layers(self) -> Layers:
        """The layers whose values of cross-attention are needed."""
        if self.products and self.cross is None:
            return None
        return ((*(self.cross or ()),) if self.products else ()) + (
            () if self.soft is None else (self.soft,)
        )

    def cross_layers(self, layers: int) -> Layers:
        """The layers of a decoder with `layers` whose weights of cross-attention are needed."""
        if self.cross is None:
            return None
        further = (
            () if self.soft is None else (self.soft, layers - 1) if self.reading else (self.soft,)
        )
        return self.cross + further

    def depth(self, layers: int, vectors_of: Head | None) -> int:
        """Returns how many of the `layers` of the decoder run."""
        needed = (self.decoder, self.cross_layers(layers), self.value_layers)
        if self.scores or None in needed:
            return layers
        own = () if vectors_of is None or vectors_of[0] == "encoder" else (vectors_of[1],)
        deepest: int = max((-1, *own, *[layer for chosen in needed for layer in chosen or ()]))
        return deepest + 1

    def after(self, hidden: Sequence[int]) -> MapChoice:
        """Returns the choice for a target that the `hidden` tokens precede."""
        if (
            self.followed is None
            or self.followed.side == "encoder"
            or self.followed.position is None
        ):
            return self
        return replace(
            self, followed=self.followed._replace(position=self.followed.position + len(hidden))
        )

    def numbers(
        self, kind: Kind, layers: int, heads: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the requested layers and heads of a kind."""
        chosen: Layers = getattr(self, kind)
        return tuple(range(layers)) if chosen is None else chosen, tuple(
            range(heads)
        ) if self.heads is None else self.heads


EVERYTHING = MapChoice()
ALIGNMENT = MapChoice((), (), (), products=False, scores=False)
"""No maps; `soft` is set to a layer."""
SCORES = MapChoice((), (), (), products=False)
"""No maps, only scores and candidates."""


@dataclass(frozen=True, slots=True)
class HeadVectors:
    """Vectors of one head: `query` (T, D), `key` (S, D), `value` (S, D)."""

    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """Attention weights of every head, float32, for T = len(target) + 1 queries.

    Query t generates target token t, the last query the end of sentence. The keys of `decoder` are
    the start token and the target. `token_scores` (T,) are natural log-probabilities of the target
    tokens and the end of sentence; `candidate_ids` and `candidate_scores` (T, C) are the most
    probable tokens, best first. Decoders with a recurrence have no heads in `decoder` (L, 0, T, T)
    and `forget_gates` (L, T) instead: the kept share of the state, averaged over the features.
    `value_products` are those of `model.analysis.contributions`. Scores are those among the tokens
    that the target may have: those of its shortlist, and its own. `outside` are the positions of
    its tokens that are not on the list.

    `normalizers` (T,) are logarithms of the sums of the exponentials of the logits: a logit is the
    sum of its token's score and this. `tensors` are those of the followed layer, each with an axis
    of rows.

    Maps that are not in the `choice` are zeros, which are not sent to another process. `soft` and
    `reading` are set if requested; those of long sentences are sent in `float16`.
    """

    cross: NDArray[np.float32]  # (L, H, T, S)
    encoder: NDArray[np.float32]  # (L, H, S, S)
    decoder: NDArray[np.float32]  # (L, H, T, T)
    token_scores: NDArray[np.float32]
    candidate_ids: NDArray[np.int64]
    candidate_scores: NDArray[np.float32]
    value_products: NDArray[np.float32]  # (L, S, H, H)
    vectors: HeadVectors | None = None
    forget_gates: NDArray[np.float32] | None = None  # (L, T)
    outside: tuple[int, ...] = ()
    soft: NDArray[np.float32] | None = None  # (T, S)
    reading: NDArray[np.float32] | None = None  # (T, S)
    normalizers: NDArray[np.float32] | None = None  # (T,)
    tensors: Mapping[str, NDArray[np.float32]] | None = None
    choice: MapChoice = EVERYTHING

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles only the chosen maps."""
        shapes, parts = {}, {}
        for kind in KINDS:
            maps: NDArray[np.float32] = getattr(self, kind)
            shapes[kind] = maps.shape
            layers, heads = self.choice.numbers(kind, *maps.shape[:2])
            heads = tuple([head for head in heads if head < maps.shape[1]])  # a recurrence has none
            parts[kind] = (layers, heads, np.ascontiguousarray(maps[np.ix_(layers, heads)]))
        others = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in KINDS
        }
        others |= {name: _narrow(others[name]) for name in SOFT if others[name] is not None}
        if not self.choice.products:
            others["value_products"] = np.zeros((0, 0, 0, 0), dtype=np.float32)
        return _unpickled, (shapes, parts, others)

    def without_first_token(self, vectors_of: Head | None) -> AttentionMaps:
        """Returns the maps of a target without its first token: its query is removed, and its
        weight as a key is added to the start token."""
        decoder = np.concatenate(
            [self.decoder[..., 1:, :1] + self.decoder[..., 1:, 1:2], self.decoder[..., 1:, 2:]], -1
        )
        vectors = self.vectors
        if vectors is not None and vectors_of is not None and vectors_of[0] != "encoder":
            keys = 1 if vectors_of[0] == "decoder" else 0
            vectors = HeadVectors(vectors.query[1:], vectors.key[keys:], vectors.value[keys:])
        return replace(
            self,
            cross=self.cross[..., 1:, :],
            decoder=decoder,
            token_scores=self.token_scores[1:],
            candidate_ids=self.candidate_ids[1:],
            candidate_scores=self.candidate_scores[1:],
            vectors=vectors,
            forget_gates=None if self.forget_gates is None else self.forget_gates[:, 1:],
            outside=tuple(place - 1 for place in self.outside if place),
            soft=None if self.soft is None else self.soft[1:],
            reading=None if self.reading is None else self.reading[1:],
            normalizers=None if self.normalizers is None else self.normalizers[1:],
            tensors=self._later_rows(),
        )

    def _later_rows(self) -> Mapping[str, NDArray[np.float32]] | None:
        """Returns the tensors without the row of a decoder's first input."""
        followed = self.choice.followed
        if (
            self.tensors is None
            or followed is None
            or followed.side == "encoder"
            or followed.position is not None
        ):
            return self.tensors
        return {
            name: values[1:] if values.ndim == 2 else values
            for name, values in self.tensors.items()
        }


def _unpickled(
    shapes: dict[Kind, tuple[int, ...]],
    parts: dict[Kind, tuple[tuple[int, ...], tuple[int, ...], NDArray[np.float32]]],
    others: dict[str, Any],
) -> AttentionMaps:
    """Returns maps; the memory of those that were not chosen is not touched."""
    whole = {}
    for kind, (layers, heads, weights) in parts.items():
        whole[kind] = (
            np.zeros(shapes[kind], dtype=np.float32) if weights.size else unchosen(shapes[kind])
        )
        if weights.size:
            whole[kind][np.ix_(layers, heads)] = weights
    return AttentionMaps(
        cross=whole["cross"], encoder=whole["encoder"], decoder=whole["decoder"], **others
    )


def unchosen(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Returns zeros; many of them are read-only views of one."""
    return (
        np.broadcast_to(np.float32(0), shape)
        if math.prod(shape) > _MANY
        else np.zeros(shape, dtype=np.float32)
    )


def _narrow(shares: NDArray[np.float32]) -> NDArray[Any]:
    return shares if shares.size <= NARROW_FROM else shares.astype(np.float16)


def check_pair(config: ModelConfig, source: Sequence[int], target: Sequence[int]) -> None:
    """Raises ValueError for too long or empty inputs and ids outside the vocabulary. `target`
    excludes start and end."""
    _check(
        "source", source, config.source_vocab_size or config.vocab_size, config.max_length, least=1
    )
    _check("target", target, config.vocab_size, config.max_length - 1, least=0)


def check_choice(config: ModelConfig, choice: MapChoice) -> None:
    """Raises ValueError for layers and heads that do not exist."""
    soft = () if choice.soft is None else (choice.soft,)
    counts = (
        (choice.encoder, config.encoder_layers),
        (choice.decoder, config.decoder_layers),
        (choice.cross, config.decoder_layers),
        (soft, config.decoder_layers),
        (choice.heads, config.heads),
    )
    if any(not 0 <= number < count for numbers, count in counts for number in numbers or ()):
        raise ValueError("The model does not have all chosen layers and heads.")
    if choice.followed is not None and not choice.scores:
        raise ValueError("The tensors of a layer are those of a pass with scores.")


def check_head(config: ModelConfig, head: Head) -> None:
    """Raises ValueError for a head that does not exist."""
    kind, layer, number = head
    layers = {
        "encoder": config.encoder_layers,
        "decoder": config.decoder_layers,
        "cross": config.decoder_layers,
    }
    heads = config.decoder_heads if kind == "decoder" else config.heads
    if not (0 <= layer < layers.get(kind, 0) and 0 <= number < heads):
        raise ValueError(f"There is no {kind} head {number} in layer {layer}.")


def _check(name: str, ids: Sequence[int], vocabulary: int, longest: int, *, least: int) -> None:
    if not least <= len(ids) <= longest:
        raise ValueError(f"The {name} has {len(ids)} tokens; the model reads {least} to {longest}.")
    if ids and not 0 <= min(ids) <= max(ids) < vocabulary:
        raise ValueError(f"The {name} holds an id outside the vocabulary of {vocabulary}.")
