"""The words of a sentence and of its translation, as the workers are asked which belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.analysis.attention_alignment import Weights, Word, to_words, words
from model.analysis.pair_alignment import WordedSentence, WordEvidence, alignment_probabilities, links
from server.text.markup_projection import Link
from server.text.segmentation import Span
from server.translation.catalog import Leg


@dataclass(frozen=True, slots=True)
class PairedSentence:
    """One side: its words as runs of tokens that the encoder reads, and as characters of `text`."""

    text: str
    worded: WordedSentence
    spans: tuple[Span, ...]

    @property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]


@dataclass(frozen=True, slots=True)
class SentencePair:
    """Both sides of one sentence."""

    source: PairedSentence
    target: PairedSentence

    @property
    def question(self) -> tuple[WordedSentence, WordedSentence]:
        """What the worker needs to know."""
        return self.source.worded, self.target.worded

    def links(
        self, evidence: WordEvidence, soft: Weights, sources: Sequence[Word], targets: Sequence[Word]
    ) -> dict[Link, float]:
        """Characters of the source and of the target that belong together, with their probability. `soft` is attention
        between the pieces of `sources` and `targets`, the same words as they were translated."""
        attention = np.zeros((len(self.source.spans), len(self.target.spans)), dtype=np.float32)
        rows, source = _shared(self.source.spans, sources)
        columns, target = _shared(self.target.spans, targets)
        if source and target:
            attention[np.ix_(rows, columns)] = to_words(soft, target, source).T
        probabilities = alignment_probabilities(evidence, attention, self.source.words, self.target.words)
        found = links(probabilities)
        return {(self.source.spans[i], self.target.spans[j]): probability for (i, j), probability in found.items()}


def _shared(spans: Sequence[Span], found: Sequence[Word]) -> tuple[list[int], list[Word]]:
    """Which of the words at `spans` the found ones are, and those."""
    places = {span: place for place, span in enumerate(spans)}
    shared = [word for word in found if (word.start, word.end) in places]
    return [places[word.start, word.end] for word in shared], shared


def sentence_pair(leg: Leg, source: str, target: str) -> SentencePair | None:
    """The words of a sentence and its translation. None where the model cannot be asked: it does not translate both ways
    with one vocabulary, or the target is longer than it reads."""
    model = leg.model
    if (leg.target, leg.source) not in model.pairs or not model.tokenizer.joint:
        return None
    pair = SentencePair(_paired(leg, source, leg.target), _paired(leg, target, leg.source))
    longest = max(len(side.worded.ids) for side in (pair.source, pair.target))
    return pair if longest <= model.max_length else None


def _paired(leg: Leg, text: str, language: str) -> PairedSentence:
    encoding = leg.model.tokenizer.encode(text, language)
    found = [word for word in words(text, encoding.pieces, encoding.offsets) if not word.special]
    runs = tuple((word.pieces[0], word.pieces[-1] + 1) for word in found)
    return PairedSentence(text, WordedSentence(encoding.ids, runs), tuple((word.start, word.end) for word in found))
