"""Soft word alignment from cross-attention, and grouping of pieces into words. NumPy only.

A target token is aligned with what source tokens contribute to one layer
(`model.analysis.contributions`) in the query that generated it, or in the next query, which reads
it ("shift": Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation").
An import chooses layer and row without gold alignments, by `agreement`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from model.analysis.contributions import layer_contributions
from model.analysis.types import AttentionMaps, MapChoice

Weights = NDArray[np.float32]
Link = tuple[int, int]
"""(source word, target word), counted from 0."""

FILE = "alignment.json"
_LEAST = 1e-9
_PAUSE = 1 << 20
"""Multiplications between two pauses: about four milliseconds."""
_SPACE = "\u2581"
_WORD = re.compile(
    r"""[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]
    | (?:\w\.){2,} | \b(?:[A-Z]|[MD]rs?|Ms|St|hon|Prof)\.(?=\s\S)  # abbreviations
    | (?:aujourd|o|prud|presqu)['’]\w+                              # one word with an apostrophe
    | \d+(?:[.,]\d+)+                                             # numbers
    | \w+?(?=n['’]t\b) | n['’]t\b                                  # do|n't
    | (?<=\w)['’](?:s|re|ve|ll|d|m)\b                              # Anna|'s
    | \w+?(?=['’](?:s|re|ve|ll|d|m)\b)
    | \w+['’](?=\w) | \w+                                         # l'|eau
    | [^\w\s]""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words as people cut them for alignments: hyphens are words, clitics are cut off."""
FULL = 0.5
"""A source word that receives less attention than this from all target tokens is a gap."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word: its characters [start, end) in the sentence and the indices of its pieces. Pieces
    without text (tags, start and end of sentence) are words of their own with start == end."""

    text: str
    start: int
    end: int
    pieces: tuple[int, ...]

    @property
    def special(self) -> bool:
        return self.start == self.end


@dataclass(frozen=True, slots=True)
class AlignmentLayer:
    """The layer of cross-attention that aligns words; with `shift`, in the row after the
    token's."""

    layer: int
    shift: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    def chosen(self, choice: MapChoice, reading: bool = False) -> MapChoice:
        """Returns the choice with this layer's soft alignment."""
        return replace(choice, soft=self.layer, shift=self.shift, reading=reading)

    @classmethod
    def load(cls, folder: Path, layers: int) -> AlignmentLayer:
        """Reads alignment.json of a model folder. Without it, and with one of version 0.1, which
        lists heads, returns the last layer, the second to last of 6 or more. Raises ValueError for
        an invalid file."""
        file, default = folder / FILE, {"layer": layers - 1 if layers < 6 else layers - 2}
        try:
            read = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else default
            chosen = cls(**(default if "heads" in read else read))
            if (
                type(chosen.layer) is not int
                or not 0 <= chosen.layer < layers
                or type(chosen.shift) is not bool
            ):
                raise ValueError(f"the decoder has {layers} layers")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{file} does not name a layer of the model as {{layer, shift}}: {error}"
            ) from None
        return chosen


def word_spans(text: str) -> list[tuple[int, int]]:
    """Returns the characters [start, end) of the words of a text. Marks belong to their letters."""
    spans = [match.span() for match in _WORD.finditer(text)]
    if text.isascii():
        return spans
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        follows = bool(joined) and joined[-1][1] == start
        if follows and (
            _is_mark(text[start]) or (_is_mark(text[start - 1]) and text[start].isalnum())
        ):
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def _is_mark(character: str) -> bool:
    return category(character)[0] == "M" or character in "\u200c\u200d"


def words(
    text: str,
    pieces: Sequence[str],
    offsets: Sequence[tuple[int, int]],
    spans: Sequence[tuple[int, int]] | None = None,
) -> tuple[Word, ...]:
    """Groups pieces into words, in order. A piece belongs to the word with the largest overlap.
    `spans` are the characters [start, end) of each word, by default `word_spans`."""
    if spans is None:
        spans = word_spans(text)
    groups: list[tuple[int | None, list[int]]] = []
    at = 0
    for place, (start, end) in enumerate(offsets):
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        number = _overlapped(spans, at, start, end)
        if (
            number is None
            and (text[start:end].isspace() or pieces[place] == _SPACE)
            and at < len(spans)
        ):
            number = at  # a separate space belongs to the next word
        if number is not None and groups and groups[-1][0] == number:
            groups[-1][1].append(place)
        else:
            groups.append((number, [place]))
    return tuple(_word(text, pieces, offsets, spans, number, places) for number, places in groups)


def to_words(maps: Weights, queries: Sequence[Word], keys: Sequence[Word]) -> Weights:
    """Weights between words, summed over key pieces and averaged over query pieces: (..., Q, K) ->
    (..., q, k). The words must contain every piece once and in order."""
    by_key: Weights = np.add.reduceat(maps, [word.pieces[0] for word in keys], axis=-1)
    by_word: Weights = np.add.reduceat(by_key, [word.pieces[0] for word in queries], axis=-2)
    return by_word / np.array([len(word.pieces) for word in queries], dtype=by_word.dtype)[:, None]


def alignment_map(maps: AttentionMaps, chosen: AlignmentLayer) -> Weights:
    """Returns the soft alignment (T, S) of target tokens (end of sentence last) to source tokens: a
    layer's contributions, divided by their sum over the source."""
    if maps.soft is not None:
        return maps.soft.astype(np.float32, copy=False)
    return _shifted(_contributed(maps, chosen, slice(None)), chosen)


def _contributed(maps: AttentionMaps, chosen: AlignmentLayer, rows: slice) -> Weights:
    layer = slice(chosen.layer, chosen.layer + 1)
    [shares] = layer_contributions(maps.cross[layer, :, rows], maps.value_products[layer])
    return np.asarray(shares / np.maximum(shares.sum(axis=-1, keepdims=True), _LEAST))


def reading_map(maps: AttentionMaps, chosen: AlignmentLayer) -> Weights:
    """Returns how much each target token read of the source tokens (T, S): the mean weights of the
    heads of the layer that aligns, and of the last. A row without a counterpart in the source reads
    its tags, to which it owes no contribution."""
    if maps.reading is not None:
        return maps.reading.astype(np.float32, copy=False)
    layer, last = maps.cross[chosen.layer].mean(axis=0), maps.cross[-1].mean(axis=0)
    return np.asarray((_shifted(layer, chosen) + last) / 2, dtype=np.float32)


def chosen_alignment(
    maps: AttentionMaps, choice: MapChoice
) -> Generator[None, None, AttentionMaps]:
    """Returns the maps with the soft alignment and the reading that the choice asks for. Yields
    where other work may run."""
    if choice.soft is None:
        return replace(maps, choice=choice)
    layer = AlignmentLayer(choice.soft, choice.shift)
    _, heads, rows, length = maps.cross.shape
    count = min(-(-rows * length * heads**2 // _PAUSE), max(1, rows // 2))
    parts = []
    for part in range(count):
        if part:
            yield
        parts.append(
            _contributed(maps, layer, slice(rows * part // count, rows * (part + 1) // count))
        )
    if count > 1 and choice.reading:
        yield
    return replace(
        maps,
        soft=_shifted(np.concatenate(parts), layer),
        reading=reading_map(maps, layer) if choice.reading else None,
        choice=choice,
    )


def _shifted(rows: Weights, chosen: AlignmentLayer) -> Weights:
    return np.concatenate([rows[1:], rows[-1:]]) if chosen.shift else rows


def between_words(soft: Weights, source: Sequence[Word], target: Sequence[Word]) -> Weights:
    """Returns the weights (W, V) of a soft alignment (T, S) between words that are not special."""
    runs = [
        [(word.pieces[0], word.pieces[-1] + 1) for word in side if not word.special]
        for side in (source, target)
    ]
    return between_runs(soft, *runs)


def between_runs(
    soft: Weights, source: Sequence[tuple[int, int]], target: Sequence[tuple[int, int]]
) -> Weights:
    """Returns the weights (W, V) between runs of tokens [first, end) of a soft alignment (T, S):
    summed over the source, averaged over the target."""
    if not source or not target:
        return np.zeros((len(source), len(target)), dtype=np.float32)
    by_source = _sums(soft, source, axis=1)
    lengths = np.array([end - first for first, end in target], dtype=np.float32)
    return np.asarray((_sums(by_source, target, axis=0) / lengths[:, None]).T)


def _sums(weights: Weights, runs: Sequence[tuple[int, int]], axis: int) -> Weights:
    bounds = [bound for run in runs for bound in run]
    bounds = bounds[:-1] if bounds[-1] == weights.shape[axis] else bounds
    summed = np.add.reduceat(weights, bounds, axis=axis)
    return np.asarray(summed[:, ::2] if axis else summed[::2])


def agreement(soft: Weights, source: Sequence[Word], target: Sequence[Word]) -> int:
    """Returns how many target words are also the word with the largest weight for their best source
    word."""
    weights = between_words(soft, source, target)  # (W, V)
    if not weights.size:
        return 0
    best = weights.argmax(axis=0)
    return int((weights.argmax(axis=1)[best] == np.arange(len(best))).sum())


def coverage(soft: Weights, source: Sequence[Word], target: Sequence[Word]) -> list[float]:
    """Returns the attention that each source word received from all target words. A word with
    nearly 0 is probably not translated."""
    by_word = to_words(soft, target, source)
    real = [place for place, word in enumerate(target) if not word.special]
    return [float(share) for share in by_word[real].sum(axis=0)]


def received_attention(soft: Weights, source: Sequence[Word], tokens: int) -> list[float]:
    """Returns the attention that each source word with letters or digits received in the first
    `tokens` rows of a `reading_map` (T, S). The end of sentence attends to everything and is left
    out."""
    totals = soft[:tokens].sum(axis=0)
    return [
        float(totals[list(word.pieces)].sum())
        for word in source
        if not word.special and any(map(str.isalnum, word.text))
    ]


def largest_gap(received: Sequence[float]) -> float:
    """Returns the largest sum of FULL minus the received attention over words in a row, at least 0
    (Kadane's algorithm). One word adds at most FULL, so a larger gap has several words."""
    largest = current = 0.0
    for attention in received:
        current = max(0.0, current + FULL - attention)
        largest = max(largest, current)
    return largest


def _overlapped(spans: Sequence[tuple[int, int]], first: int, start: int, end: int) -> int | None:
    """Returns the index of the span, from `first` on, with the largest overlap with [start,
    end)."""
    if start >= end or first >= len(spans) or spans[first][0] >= end:
        return None
    if first + 1 == len(spans) or spans[first + 1][0] >= end:  # nearly always
        return first
    near = [i for i in range(first, min(first + 8, len(spans))) if spans[i][0] < end]
    return max(near, key=lambda i: min(end, spans[i][1]) - max(start, spans[i][0]))


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
