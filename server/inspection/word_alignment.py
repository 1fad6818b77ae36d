"""The words of an inspected sentence pair and the links between them. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.analysis.attention_alignment import AlignmentChoice, Word, alignment_map, coverage, target_to_source, words
from server.inspection.types import InspectionResult, Token

AlignmentMethod = Literal["combined", "attention"]


@dataclass(frozen=True, slots=True)
class SentenceWords:
    """The words of the three sequences of a sentence pair."""

    source: tuple[Word, ...]
    target: tuple[Word, ...]
    decoder_input: tuple[Word, ...]

    def sides(self, kind: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
        """Returns the words of the queries and of the keys of a kind of map."""
        if kind == "cross":
            return self.target, self.source
        return (self.source, self.source) if kind == "encoder" else (self.target, self.decoder_input)


@dataclass(frozen=True, slots=True)
class Alignment:
    """Links (source word, target word, weight).

    `method` "combined" is `model.analysis.pair_alignment`, whose weights are probabilities. "attention" links each
    target word to the source word with the largest weight in the heads of `choice`. `coverage` is the attention that
    each source word received in these heads, summed over the target.
    """

    method: AlignmentMethod
    choice: AlignmentChoice
    links: tuple[tuple[int, int, float], ...]
    coverage: tuple[float, ...]


def split_words(result: InspectionResult) -> SentenceWords:
    """Returns the words of source, target and decoder input."""
    return SentenceWords(
        _words(result.source_text, result.source),
        _words(result.target_text, result.target),
        _words(result.target_text, result.decoder_input),
    )


def align_words(result: InspectionResult, pair: SentenceWords) -> Alignment:
    """Returns the word alignment: "combined" if the request collected the evidence for it, else "attention" by the
    heads that the model folder names."""
    cross = result.attention.maps.cross
    choice = result.subject.leg.model.alignment
    soft = alignment_map(cross, choice)
    combined = _combined_links(result, soft, pair)
    links = target_to_source(soft, pair.source, pair.target) if combined is None else combined
    return Alignment(
        "attention" if combined is None else "combined",
        choice,
        tuple((source, target, weight) for (source, target), weight in sorted(links.items())),
        tuple(coverage(soft, pair.source, pair.target)),
    )


def _combined_links(
    result: InspectionResult, soft: NDArray[np.float32], pair: SentenceWords
) -> dict[tuple[int, int], float] | None:
    """Returns the links by all evidence, or None where the request collected none."""
    if result.sentence_pair is None or result.attention.evidence is None:
        return None
    sources = {(word.start, word.end): index for index, word in enumerate(pair.source) if not word.special}
    targets = {(word.start, word.end): index for index, word in enumerate(pair.target) if not word.special}
    links = result.sentence_pair.links(result.attention.evidence, soft, pair.source, pair.target)
    return {(sources[a], targets[b]): weight for (a, b), weight in links.items() if a in sources and b in targets}


def _words(text: str, tokens: Sequence[Token]) -> tuple[Word, ...]:
    return words(text, [token.piece for token in tokens], [(token.start, token.end) for token in tokens])
