"""The words of a sentence and of its translation, in the form in which a worker compares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.analysis.attention_alignment import Weights, Word, to_words, words
from model.analysis.pair_alignment import (
    WordedSentence,
    WordEvidence,
    alignment_probabilities,
    links,
    spellings,
)
from server.text.markup.projection import Link
from server.text.segmentation import Span
from server.translation.catalog import Leg


@dataclass(frozen=True, slots=True)
class PairedSentence:
    """One side of a pair. `worded` holds its words as runs of tokens, `spans` holds them as characters of `text`."""

    text: str
    worded: WordedSentence
    spans: tuple[Span, ...]

    @property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence and its translation with their words."""

    source: PairedSentence
    target: PairedSentence

    @property
    def worded(self) -> tuple[WordedSentence, WordedSentence]:
        """Both sides as the worker needs them."""
        return self.source.worded, self.target.worded

    def links(
        self, evidence: WordEvidence, soft: Weights, sources: Sequence[Word], targets: Sequence[Word]
    ) -> dict[Link, float]:
        """Returns the spans of source and target words that belong together, with their probabilities. `soft` is the
        attention (T, S) between the pieces of `targets` and `sources`, the same words as they were translated."""
        attention = np.zeros((len(self.source.spans), len(self.target.spans)), dtype=np.float32)
        rows, source = _shared(self.source.spans, sources)
        columns, target = _shared(self.target.spans, targets)
        if source and target:
            attention[np.ix_(rows, columns)] = to_words(soft, target, source).T
        probabilities = alignment_probabilities(evidence, attention, self.source.words, self.target.words)
        found = links(probabilities)
        return {(self.source.spans[i], self.target.spans[j]): probability for (i, j), probability in found.items()}


def _shared(spans: Sequence[Span], found: Sequence[Word]) -> tuple[list[int], list[Word]]:
    """Returns the words of `found` that are at one of the `spans`, with the indices of these spans."""
    indices = {span: index for index, span in enumerate(spans)}
    shared = [word for word in found if (word.start, word.end) in indices]
    return [indices[word.start, word.end] for word in shared], shared


def sentence_pair(leg: Leg, source: str, target: str) -> SentencePair | None:
    """Returns the words of a sentence and its translation. Returns None if the model cannot compare them: it does not
    translate in both directions with one vocabulary, it names the language in the target, or one side is longer than
    the model reads."""
    model = leg.model
    if (leg.target, leg.source) not in model.pairs or not model.tokenizer.joint or leg.first_token is not None:
        return None
    pair = SentencePair(_paired(leg, source, leg.target), _paired(leg, target, leg.source))
    longest = max(len(side.worded.ids) for side in (pair.source, pair.target))
    return pair if longest <= model.max_length else None


def _paired(leg: Leg, text: str, language: str) -> PairedSentence:
    encoding = leg.model.tokenizer.encode(text, language)
    found = [word for word in words(text, encoding.pieces, encoding.offsets) if not word.special]
    runs = tuple((word.pieces[0], word.pieces[-1] + 1) for word in found)
    beginnings = leg.model.tokenizer.beginnings(spellings([word.text for word in found]))
    spans = tuple((word.start, word.end) for word in found)
    return PairedSentence(text, WordedSentence(encoding.ids, runs, beginnings), spans)
