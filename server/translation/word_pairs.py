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
class SentencePair:
    """The words of a sentence and of its translation, as the worker needs them: runs of tokens. `spans` are their
    characters, and `written` are the words."""

    worded: tuple[WordedSentence, WordedSentence]
    spans: tuple[Sequence[Span], Sequence[Span]]
    written: tuple[Sequence[str], Sequence[str]]

    def links(
        self, evidence: WordEvidence, soft: Weights, sources: Sequence[Word], targets: Sequence[Word]
    ) -> dict[Link, float]:
        """Returns the spans of source and target words that belong together, with their probabilities. `soft` is the
        attention (T, S) between the pieces of `targets` and `sources`, the same words as they were translated."""
        attention = np.zeros((len(self.spans[0]), len(self.spans[1])), dtype=np.float32)
        rows, source = _shared(self.spans[0], sources)
        columns, target = _shared(self.spans[1], targets)
        if source and target:
            attention[np.ix_(rows, columns)] = to_words(soft, target, source).T
        pairs = links(alignment_probabilities(evidence, attention, *self.written))
        return {(self.spans[0][i], self.spans[1][j]): probability for (i, j), probability in pairs.items()}


def _shared(spans: Sequence[Span], words: Sequence[Word]) -> tuple[list[int], list[Word]]:
    """Returns the words that are at one of the `spans`, with the indices of these spans."""
    indices = {span: index for index, span in enumerate(spans)}
    shared = [word for word in words if (word.start, word.end) in indices]
    return [indices[word.start, word.end] for word in shared], shared


def sentence_pair(leg: Leg, source: str, target: str) -> SentencePair | None:
    """Returns the words of a sentence and its translation. Returns None if the model cannot compare them: it does not
    translate in both directions with one vocabulary, it names the language in the target, or one side is longer than
    the model reads."""
    model = leg.model
    if (leg.target, leg.source) not in model.pairs or not model.tokenizer.joint or leg.first_token is not None:
        return None
    worded: list[WordedSentence] = []
    found: list[list[Word]] = []
    for text, language in ((source, leg.target), (target, leg.source)):
        encoding = model.tokenizer.encode(text, language)
        if len(encoding.ids) > model.max_length:
            return None
        found.append([word for word in words(text, encoding.pieces, encoding.offsets) if not word.special])
        runs = tuple((word.pieces[0], word.pieces[-1] + 1) for word in found[-1])
        beginnings = model.tokenizer.beginnings(spellings([word.text for word in found[-1]]))
        worded.append(WordedSentence(encoding.ids, runs, beginnings))
    spans = [[(word.start, word.end) for word in side] for side in found]
    written = [[text[start:end] for start, end in side] for text, side in zip((source, target), spans, strict=True)]
    return SentencePair((worded[0], worded[1]), (spans[0], spans[1]), (written[0], written[1]))
