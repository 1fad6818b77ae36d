"""The subject and the result of an attention request, and the error for a wrong number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from model.analysis.attention_alignment import Weights, Word, word_spans, words
from model.analysis.types import Head, Kind
from model.search.options import DecodingOptions
from server.engine.ipc.messages import JobResult
from server.errors import InvalidRequest
from server.store.history import SentenceRecord
from server.text.spans import OffsetMap, Span, edited
from server.translation.catalog import Leg

AlignmentMethod = Literal["combined", "attention"]
"""Whether words are linked by all evidence, or by attention alone."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A sentence with its pieces and words. Piece i has the characters [start, end) `offsets[i]`;
    special pieces have an empty range."""

    text: str
    pieces: tuple[str, ...]
    offsets: tuple[Span, ...]
    words: tuple[Word, ...]


def tokens(
    text: str, pieces: tuple[str, ...], offsets: tuple[Span, ...], originals: Mapping[str, str]
) -> Tokens:
    """Returns a sentence with its words. The `originals` replace the words that were read or
    written for them; each is one word."""
    spans: list[Span] | None = None
    if originals:
        matches = list(re.finditer("|".join(map(re.escape, originals)), text))
        shown, runs = edited(text, [(*match.span(), originals[match[0]]) for match in matches])
        places = OffsetMap(runs)
        codes = [places.span(match.span()) for match in matches]
        text, offsets = shown, tuple(map(places.span, offsets))
        others = [
            span
            for span in word_spans(text)
            if not any(span[0] < end and start < span[1] for start, end in codes)
        ]
        spans = sorted([*codes, *others])
    return Tokens(text, pieces, offsets, words(text, pieces, offsets, spans))


@dataclass(frozen=True, slots=True)
class InspectedSentence:
    """The sentence pair of an attention request: `sentence` of `sentences` and `leg_number` of
    `legs`, from 0. `id` is None for a pair outside the history. `options` are those of the decode,
    None where they are not known or the target is given. With `repeatable` a forced pass has the
    bits of that decode."""

    leg: Leg
    pair: SentenceRecord
    id: str | None = None
    sentence: int = 0
    sentences: int = 1
    leg_number: int = 0
    legs: int = 1
    options: DecodingOptions | None = None
    repeatable: bool = False

    @property
    def shortlist(self) -> str | None:
        """The shortlist of the decode, "" for none; None stands for that of the model."""
        return None if self.options is None else self.options.shortlist or ""


@dataclass(frozen=True, slots=True)
class InspectionResult:
    """One sentence with its attention maps.

    `target` ends with the end of sentence, whose query is the last row of the maps. `decoder_input`
    has the keys of the decoder's self-attention: the start piece, then the target without its last
    piece. `scores` are the log-probabilities of the target's pieces, `candidates` the most probable
    pieces at each position with theirs, both among the tokens that the target may have. With
    `exact` the scores are those of the decode to the bit. `combined`: whether all evidence linked
    the words.
    """

    subject: InspectedSentence
    source: Tokens
    target: Tokens
    decoder_input: Tokens
    candidates: tuple[tuple[tuple[str, float], ...], ...]
    scores: tuple[float, ...]
    attention: JobResult
    combined: bool = False
    exact: bool = False
    masked_heads: tuple[Head, ...] = ()
    effects: Weights | None = None
    """The fall of each target word's log-probability when a source word is hidden (V, W), if
    requested."""

    def sides(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Returns the queries and the keys of a kind of map."""
        return {
            "cross": (self.target, self.source),
            "encoder": (self.source, self.source),
            "decoder": (self.target, self.decoder_input),
        }[kind]

    def maps(self, kind: Kind) -> Weights:
        """Returns one kind of map: cross (L, H, T, S), encoder (L, H, S, S), decoder (L, H, T,
        T)."""
        weights: Weights = getattr(self.attention.maps, kind)
        return weights


def out_of_range(name: str, count: int, whole: str, noun: str = "") -> InvalidRequest:
    """Returns the error for parameter `name` where `whole`, such as "this translation", has `count`
    of it, or of `noun`."""
    noun = noun or name
    if count == 0:
        return InvalidRequest(f"{whole[:1].upper()}{whole[1:]} has no {noun}.")
    if count == 1:
        return InvalidRequest(f"{name} must be 0: {whole} has one {noun}.")
    return InvalidRequest(f"{name} must be between 0 and {count - 1} for {whole}.")
