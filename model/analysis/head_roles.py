"""Roles, losses and statistics of attention heads. NumPy only. An import stores those over a corpus
in roles.json of the model folder.

A role says where a head looks: the share of the queries whose largest weight is there (Voita et al.
2019, "Analyzing Multi-Head Self-Attention": positional heads, and heads for rare words).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter

from model.analysis.types import HeadMask, Kind
from model.atomic_write import atomic_write
from model.weight_files import hash_of_files, weight_files

Weights = NDArray[np.float32]
CorpusRole = Literal[
    "previous", "before_previous", "next", "same", "diagonal", "start", "delimiter", "rare", "mixed"
]

FILE = "roles.json"
ROLES: dict[Kind, tuple[CorpusRole, ...]] = {
    "encoder": ("previous", "next", "same", "start", "delimiter", "rare"),
    "decoder": ("previous", "before_previous", "start", "delimiter", "rare"),
    "cross": ("diagonal", "start", "delimiter", "rare"),
}
"""Positions in the decoder are relative to the token that a row produces."""
LEAST_SHARE = 0.5
"""A head whose largest share is smaller is "mixed"."""
_NEAR = 0.1
"""Largest distance of relative positions (0 to 1) that counts as diagonal."""
_ENDS_BYTES = 1 << 20
_MAX_BYTES = 10_000_000
Role = Literal[
    "previous", "before_previous", "next", "same", "start", "end", "diagonal", "broad", "mixed"
]
_OFFSETS: dict[Kind, tuple[tuple[Role, int], ...]] = {
    "cross": (),
    "encoder": (("same", 0), ("previous", -1), ("next", 1)),
    # A row of the decoder is named by the token that it produced; key k is the token before the one
    # produced in row k.
    "decoder": (("previous", 0), ("before_previous", -1)),
}
"""Positional roles of each kind: the key that a query attends to, relative to its row."""
_ROLE_SHARE = 0.5
"""Least share of queries with their largest weight at a position for a positional role."""
_DIAGONAL, _BROAD = 0.4, 0.8


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens on one side of a map. `rarity` grows with a token's rarity in the vocabulary;
    `special` tokens have no text."""

    pieces: tuple[str, ...]
    rarity: tuple[int, ...]
    special: tuple[bool, ...]

    def delimiters(self) -> NDArray[np.bool_]:
        """Returns which tokens are punctuation or the end of sentence."""
        ends = [special and number > 0 for number, special in enumerate(self.special)]
        return np.array(
            [end or _is_punctuation(piece) for end, piece in zip(ends, self.pieces, strict=True)]
        )

    def rarest(self) -> int:
        """Returns the number of the rarest token with text, or -1."""
        plain = [number for number, special in enumerate(self.special) if not special]
        return max(plain, key=lambda number: self.rarity[number], default=-1)


@dataclass(frozen=True, slots=True)
class HeadRole:
    """A head's role and the share of the queries that it describes."""

    role: CorpusRole
    share: Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class HeadRoles:
    """Roles of all heads of a model, [layer][head] for each kind. `weights` is the hash of the
    weights that were measured, on `sentences` sentences of `directions` such as "en-de". `losses`
    is None if they were not measured."""

    weights: str
    sentences: int
    directions: tuple[str, ...]
    heads: dict[Kind, list[list[HeadRole]]]
    losses: HeadLosses | None = None

    def write(self, folder: Path) -> None:
        with atomic_write(folder / FILE) as part:
            part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> HeadRoles | None:
        """Reads roles.json. Returns None if there is none, it is invalid, or it describes other
        weights."""
        file = folder / FILE
        try:
            if file.stat().st_size > _MAX_BYTES:
                return None
            roles = TypeAdapter(cls).validate_json(file.read_bytes())
            heads = {kind: roles.heads.get(kind, []) for kind in ROLES}
            return replace(roles, heads=heads) if roles.weights == weights_hash(folder) else None
        except (OSError, ValueError):
            return None


class RoleCounter:
    """Counts over sentences how many queries of each head look at each role's place."""

    def __init__(self) -> None:
        self.sentences = 0
        self._hits: dict[Kind, NDArray[np.int64]] = {}
        self._queries: dict[Kind, int] = {}

    def add(self, maps: dict[Kind, Weights], source: Tokens, target: Tokens, read: Tokens) -> None:
        """Counts one sentence: maps (L, H, Q, K) of each kind. `read` are the decoder's inputs; its
        last row, which produces the end of sentence, is not counted."""
        self.sentences += 1
        sides: dict[Kind, tuple[Tokens, Tokens]] = {
            "encoder": (source, source),
            "decoder": (target, read),
            "cross": (target, source),
        }
        for kind, weights in maps.items():
            queries, keys = sides[kind]
            rows = [number for number, special in enumerate(queries.special) if not special]
            if not rows or not weights.size:
                continue
            best = weights[:, :, rows].argmax(axis=-1)  # (L, H, R)
            places = _places(kind, len(queries.pieces), keys)[:, rows]  # (roles, R, K)
            hits = places[:, np.arange(len(rows)), best].sum(axis=-1)  # (roles, L, H)
            self._hits[kind] = self._hits.get(kind, np.zeros_like(hits)) + hits
            self._queries[kind] = self._queries.get(kind, 0) + len(rows)

    def roles(self) -> dict[Kind, list[list[HeadRole]]]:
        """Returns the role of every head, [layer][head]."""
        roles: dict[Kind, list[list[HeadRole]]] = {}
        for kind, hits in self._hits.items():
            shares = hits / self._queries[kind]
            _, layers, heads = shares.shape
            roles[kind] = [
                [_largest(kind, shares[:, layer, head]) for head in range(heads)]
                for layer in range(layers)
            ]
        return roles


def weights_hash(folder: Path) -> str:
    """Returns a hash of a folder's weight files: names, sizes, first and last megabyte."""
    return hash_of_files(weight_files(folder), _ENDS_BYTES)[:32]


def _places(kind: Kind, queries: int, keys: Tokens) -> NDArray[np.bool_]:
    """Returns for every role where a query has to look: (roles, Q, K)."""
    q, k = np.arange(queries)[:, None], np.arange(len(keys.pieces))[None]
    distance = np.abs(q / max(1, queries - 1) - k / max(1, len(keys.pieces) - 1))
    everywhere = np.ones_like(q, dtype=bool)
    # key q of the decoder is the token before the one that row q produces
    before = 0 if kind == "decoder" else -1
    places: dict[CorpusRole, NDArray[np.bool_]] = {
        "previous": k == q + before,
        "before_previous": k == q + before - 1,
        "next": k == q + 1,
        "same": k == q,
        "diagonal": distance <= _NEAR,
        "start": everywhere & (k == 0),
        "delimiter": everywhere & keys.delimiters()[None],
        "rare": everywhere & (k == keys.rarest()),
    }
    return np.stack([places[role] for role in ROLES[kind]])


def _largest(kind: Kind, shares: Sequence[float] | NDArray[np.float64]) -> HeadRole:
    best = int(np.argmax(shares))
    share = round(float(shares[best]), 3)
    return HeadRole(ROLES[kind][best] if share >= LEAST_SHARE else "mixed", share)


def _is_punctuation(piece: str) -> bool:
    text = piece.strip("\u2581 ")
    return bool(text) and all(unicodedata.category(character)[0] == "P" for character in text)


@dataclass(frozen=True, slots=True)
class HeadLosses:
    """Nats per target token over `sentences`. `loss` is with all heads; the others are its rise:
    `heads` ([layer][head] for each kind) without one head, `layers` without all heads of a layer,
    `others` without all layers of a kind but the one that matters most."""

    sentences: int
    loss: float
    heads: dict[Kind, list[list[float]]]
    layers: dict[Kind, list[float]]
    others: dict[Kind, float]


def measure_losses(
    loss: Callable[[HeadMask], float], shape: Mapping[Kind, tuple[int, int]], sentences: int
) -> HeadLosses:
    """`loss` returns the loss of the sentences without some heads; `shape` has the numbers of
    layers and heads of each kind."""
    whole = loss(())

    def rise(kind: Kind, layers: Iterable[int], heads: Iterable[int]) -> float:
        return round(
            loss(tuple((kind, layer, head) for layer in layers for head in heads)) - whole, 4
        )

    single, layers, others = (
        dict[Kind, list[list[float]]](),
        dict[Kind, list[float]](),
        dict[Kind, float](),
    )
    for kind, (count, number) in shape.items():
        every, heads = range(count), range(number)
        single[kind] = [[rise(kind, [layer], [head]) for head in heads] for layer in every]
        layers[kind] = [rise(kind, [layer], heads) for layer in every]
        first = layers[kind].index(max(layers[kind]))
        others[kind] = rise(kind, [layer for layer in every if layer != first], heads)
    return HeadLosses(sentences, round(whole, 4), single, layers, others)


@dataclass(frozen=True, slots=True)
class HeadFigures:
    """Statistics of one head.

    `entropy` is in bits, averaged over the queries; `spread` is the entropy divided by its maximum,
    0 to 1. `diagonality` is 1 for weights on the diagonal and 0 for uniform weights. `role` is the
    position that most queries attend to, `role_share` the share of these queries (0 for "broad",
    "diagonal" and "mixed").
    """

    entropy: float
    spread: float
    diagonality: float
    role: Role
    role_share: float


def head_figures(maps: Weights, kind: Kind) -> list[list[HeadFigures]]:
    """Returns the statistics of maps (L, H, Q, K) as [layer][head]. Roles of decoder heads are
    relative to the token that a row produced."""
    bits, diagonal = entropy(maps), diagonality(maps)
    most = np.log2(visible(maps)).mean(axis=-1)  # (L, H)
    spread = np.divide(bits.mean(axis=-1), most, out=np.zeros_like(most), where=most > 0)
    layers, heads = maps.shape[:2]
    return [
        [
            HeadFigures(
                float(bits[layer, head].mean()),
                float(spread[layer, head]),
                float(diagonal[layer, head]),
                *_role(
                    maps[layer, head],
                    kind,
                    float(diagonal[layer, head]),
                    float(spread[layer, head]),
                ),
            )
            for head in range(heads)
        ]
        for layer in range(layers)
    ]


def entropy(maps: Weights) -> Weights:
    """Returns the entropy of each query's weights in bits, 0 (one key) to log2 K: (..., Q, K) ->
    (..., Q)."""
    logs = np.log2(maps, out=np.zeros_like(maps), where=maps > 0)
    return np.asarray(np.maximum(0.0, -(maps * logs).sum(axis=-1)), dtype=np.float32)


def diagonality(maps: Weights) -> Weights:
    """Returns 1 - 3 E|q - k| over relative positions q, k in [0, 1]: (..., Q, K) -> (...). 1 if all
    weight is on the diagonal, 0 for uniform weights (E|q - k| = 1/3), negative far from it."""
    queries, keys = maps.shape[-2:]
    distance = np.abs(np.linspace(0, 1, queries)[:, None] - np.linspace(0, 1, keys)[None, :])
    return np.asarray(1 - 3 * (maps * distance).sum(axis=-1).mean(axis=-1), dtype=np.float32)


def visible(maps: Weights) -> Weights:
    """Returns the number of keys with nonzero weight, at least 1: (..., Q, K) -> (..., Q)."""
    return np.asarray(np.maximum(1.0, (maps > 0).sum(axis=-1)), dtype=np.float32)


def _role(weights: Weights, kind: Kind, diagonal: float, spread: float) -> tuple[Role, float]:
    queries, keys = weights.shape
    best, place = weights.argmax(axis=-1), np.arange(queries)
    shares: dict[Role, float] = {
        "end": float((best == keys - 1).mean()),
        "start": float((best == 0).mean()),
    }
    shares |= {role: float((best == place + offset).mean()) for role, offset in _OFFSETS[kind]}
    role = max(shares, key=lambda name: shares[name])
    if shares[role] >= _ROLE_SHARE and spread < _BROAD:
        return role, shares[role]
    if spread >= _BROAD:
        return "broad", 0.0
    return ("diagonal", 0.0) if diagonal >= _DIAGONAL else ("mixed", 0.0)
