"""Word alignment from cross-attention, and grouping of pieces into words. NumPy only.

A target token is aligned with the attention of the query that generated it, or of the next query, which reads it
("shift": Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation"). The heads are
selected without gold alignments, by the agreement of the two translation directions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]
Link = tuple[int, int]
"""(source word, target word), counted from 0."""

FILE = "alignment.json"
_SPACE = "\u2581"
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+(?:['’\-]\w+)*['’]?|[^\w\s]")
FULL = 0.5
"""A source word that receives less attention than this, summed over the target tokens, counts as a gap."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word: its characters [start, end) in the sentence and the indices of its pieces.

    Pieces without text (language tag, start and end of sentence) are separate words with start == end.
    """

    text: str
    start: int
    end: int
    pieces: tuple[int, ...]

    @property
    def special(self) -> bool:
        return self.start == self.end


@dataclass(frozen=True, slots=True)
class AlignmentHead:
    """A head of cross-attention, or the mean of the layer if `head` is None. `shift`: use the query after the token."""

    layer: int
    head: int | None = None
    shift: bool = False

    def is_in(self, layers: int, heads: int) -> bool:
        """Returns whether a decoder of `layers` layers with `heads` heads has the head; the fields may come from a
        file."""
        has_head = self.head is None or (type(self.head) is int and 0 <= self.head < heads)
        return type(self.layer) is int and 0 <= self.layer < layers and has_head


@dataclass(frozen=True, slots=True)
class AlignmentChoice:
    """The heads of cross-attention that align words, best first. Their weights are averaged."""

    heads: tuple[AlignmentHead, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def load(cls, folder: Path, layers: int, heads: int) -> AlignmentChoice:
        """Reads alignment.json of a model folder. The default is the last layer, in decoders of 6 or more layers the
        second to last. Raises ValueError for an invalid file."""
        file = folder / FILE
        if not file.is_file():
            return cls((AlignmentHead(layers - 1 if layers < 6 else layers - 2),))
        try:
            chosen = tuple(AlignmentHead(**head) for head in json.loads(file.read_text(encoding="utf-8"))["heads"])
            if not chosen or not all(head.is_in(layers, heads) for head in chosen):
                raise ValueError(f"the decoder has {layers} layers with {heads} heads")
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} does not list heads of the model as {{layer, head, shift}}: {error}") from None
        return cls(chosen)


def words(
    text: str,
    pieces: Sequence[str],
    offsets: Sequence[tuple[int, int]],
    spans: Sequence[tuple[int, int]] | None = None,
) -> tuple[Word, ...]:
    """Groups pieces into words, in the order of the pieces. A piece belongs to the word with the largest overlap.

    `spans` are the characters [start, end) of each word; by default words are found with a regular expression.
    """
    if spans is None:
        spans = [match.span() for match in _WORD.finditer(text)]
    groups: list[tuple[int | None, list[int]]] = []
    at = 0
    for place, (start, end) in enumerate(offsets):
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        number = _overlapped(spans, at, start, end)
        if number is None and (text[start:end].isspace() or pieces[place] == _SPACE) and at < len(spans):
            number = at  # a separate space belongs to the next word
        if number is not None and groups and groups[-1][0] == number:
            groups[-1][1].append(place)
        else:
            groups.append((number, [place]))
    return tuple(_word(text, pieces, offsets, spans, number, places) for number, places in groups)


def to_words(maps: Weights, queries: Sequence[Word], keys: Sequence[Word]) -> Weights:
    """Weights between words, summed over key pieces and averaged over query pieces: (..., Q, K) -> (..., q, k).

    The words must contain every piece once and in order, as returned by `words`.
    """
    by_key: Weights = np.add.reduceat(maps, [word.pieces[0] for word in keys], axis=-1)
    by_word: Weights = np.add.reduceat(by_key, [word.pieces[0] for word in queries], axis=-2)
    return by_word / np.array([len(word.pieces) for word in queries], dtype=by_word.dtype)[:, None]


def alignment_map(cross: Weights, choice: AlignmentChoice) -> Weights:
    """Returns the soft alignment (T, S) of target tokens (end of sentence last) to source tokens from cross (L, H, T,
    S)."""
    return np.asarray(np.mean([_head_map(cross, head) for head in choice.heads], axis=0), dtype=np.float32)


def _head_map(cross: Weights, chosen: AlignmentHead) -> Weights:
    layer = cross[chosen.layer]
    weights: Weights = layer.mean(axis=0) if chosen.head is None else layer[chosen.head]
    return np.concatenate([weights[1:], weights[-1:]]) if chosen.shift else weights


def target_to_source(soft: Weights, source: Sequence[Word], target: Sequence[Word]) -> dict[Link, float]:
    """Returns the best source word of each target word with its weight, from a soft alignment of pieces (T, S).

    Special words have no links.
    """
    by_word = to_words(soft, target, source)
    real = [place for place, word in enumerate(source) if not word.special]
    links: dict[Link, float] = {}
    if not real:
        return links
    for place, word in enumerate(target):
        if not word.special:
            best = real[int(by_word[place, real].argmax())]
            links[(best, place)] = float(by_word[place, best])
    return links


def coverage(soft: Weights, source: Sequence[Word], target: Sequence[Word]) -> list[float]:
    """Returns the attention each source word received, summed over the target words. Near 0: probably not
    translated."""
    by_word = to_words(soft, target, source)
    real = [place for place, word in enumerate(target) if not word.special]
    return [float(share) for share in by_word[real].sum(axis=0)]


def received_attention(soft: Weights, source: Sequence[Word], tokens: int) -> list[float]:
    """Returns the attention that each source word with letters or digits received, summed over its pieces and over the
    first `tokens` rows of a soft alignment (T, S). The end of sentence attends to everything and is left out."""
    totals = soft[:tokens].sum(axis=0)
    return [
        float(totals[list(word.pieces)].sum())
        for word in source
        if not word.special and any(map(str.isalnum, word.text))
    ]


def largest_gap(received: Sequence[float]) -> float:
    """Returns the largest sum of FULL minus the received attention over words in a row, at least 0 (Kadane's algorithm).

    A single word gives at most FULL, so that a larger gap has several words.
    """
    largest = current = 0.0
    for attention in received:
        current = max(0.0, current + FULL - attention)
        largest = max(largest, current)
    return largest


def _overlapped(spans: Sequence[tuple[int, int]], first: int, start: int, end: int) -> int | None:
    """Returns the index of the span, from `first` on, with the largest overlap with the characters [start, end)."""
    near = [i for i in range(first, min(first + 8, len(spans))) if spans[i][0] < end] if start < end else []
    return max(near, key=lambda i: min(end, spans[i][1]) - max(start, spans[i][0]), default=None)


def _word(
    text: str,
    pieces: Sequence[str],
    offsets: Sequence[tuple[int, int]],
    spans: Sequence[tuple[int, int]],
    number: int | None,
    places: list[int],
) -> Word:
    if number is None:
        start, end = offsets[places[0]]
        return Word(text[start:end] or pieces[places[0]], start, end, tuple(places))
    start, end = spans[number]
    return Word(text[start:end], start, end, tuple(places))
