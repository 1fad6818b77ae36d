"""Roles of attention heads over a corpus, and what they are worth, stored in the model folder as roles.json. NumPy only.

A role says where a head looks: the share of the queries whose largest weight is there (Voita et al. 2019, "Analyzing
Multi-Head Self-Attention": positional heads, and heads for rare words). `head_statistics` has the roles in one sentence.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter

from model.analysis.head_losses import HeadLosses
from model.analysis.types import Kind
from model.atomic_write import atomic_write
from model.weight_files import hash_of_files, weight_files

Weights = NDArray[np.float32]
CorpusRole = Literal["previous", "before_previous", "next", "same", "diagonal", "start", "delimiter", "rare", "mixed"]

FILE = "roles.json"
ROLES: dict[Kind, tuple[CorpusRole, ...]] = {
    "encoder": ("previous", "next", "same", "start", "delimiter", "rare"),
    "decoder": ("previous", "before_previous", "start", "delimiter", "rare"),
    "cross": ("diagonal", "start", "delimiter", "rare"),
}
"""Roles of each kind. The positions in the decoder are relative to the token that a row produces."""
LEAST_SHARE = 0.5
"""A head whose largest share is smaller is "mixed"."""
_DIAGONAL = 0.1
"""Largest distance of relative positions, from 0 to 1, that counts as diagonal."""
_ENDS_BYTES = 1 << 20
_MAX_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens on one side of a map. `rarity` grows with the rarity of a token in the vocabulary; `special` tokens have
    no text."""

    pieces: tuple[str, ...]
    rarity: tuple[int, ...]
    special: tuple[bool, ...]

    def delimiters(self) -> NDArray[np.bool_]:
        """Returns which tokens are punctuation or the end of sentence."""
        ends = [special and number > 0 for number, special in enumerate(self.special)]
        return np.array([end or _is_punctuation(piece) for end, piece in zip(ends, self.pieces, strict=True)])

    def rarest(self) -> int:
        """Returns the number of the rarest token with text, or -1."""
        plain = [number for number, special in enumerate(self.special) if not special]
        return max(plain, key=lambda number: self.rarity[number], default=-1)


@dataclass(frozen=True, slots=True)
class HeadRole:
    """The role of a head and the share of the queries that it describes."""

    role: CorpusRole
    share: Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class HeadRoles:
    """Roles of all heads of a model, [layer][head] for each kind. `weights` is the hash of the weights that were
    measured, on `sentences` sentences of `directions` such as "en-de". `losses` is None where the import did not measure them.
    """

    weights: str
    sentences: int
    directions: tuple[str, ...]
    heads: dict[Kind, list[list[HeadRole]]]
    losses: HeadLosses | None = None

    def write(self, folder: Path) -> None:
        """Writes roles.json."""
        with atomic_write(folder / FILE) as part:
            part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> HeadRoles | None:
        """Reads roles.json. Returns None where there is none, it is not valid, or it describes other weights."""
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
    """Counts over sentences how many queries of each head look at the place of each role."""

    def __init__(self) -> None:
        self.sentences = 0
        self._hits: dict[Kind, NDArray[np.int64]] = {}
        self._queries: dict[Kind, int] = {}

    def add(self, maps: dict[Kind, Weights], source: Tokens, target: Tokens, read: Tokens) -> None:
        """Counts one sentence: maps (L, H, Q, K) of each kind. `read` are the tokens that the decoder reads; the last row
        of the decoder, which produces the end of sentence, is not counted."""
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
            roles[kind] = [[_largest(kind, shares[:, layer, head]) for head in range(heads)] for layer in range(layers)]
        return roles


def weights_hash(folder: Path) -> str:
    """Returns a hash of the weight files of a folder: their names, sizes, and first and last megabyte."""
    return hash_of_files(weight_files(folder), _ENDS_BYTES)[:32]


def _places(kind: Kind, queries: int, keys: Tokens) -> NDArray[np.bool_]:
    """Returns for every role where a query has to look: (roles, Q, K)."""
    q, k = np.arange(queries)[:, None], np.arange(len(keys.pieces))[None]
    distance = np.abs(q / max(1, queries - 1) - k / max(1, len(keys.pieces) - 1))
    everywhere = np.ones_like(q, dtype=bool)
    before = 0 if kind == "decoder" else -1  # key q of the decoder is the token before the one that row q produces
    places: dict[CorpusRole, NDArray[np.bool_]] = {
        "previous": k == q + before,
        "before_previous": k == q + before - 1,
        "next": k == q + 1,
        "same": k == q,
        "diagonal": distance <= _DIAGONAL,
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
