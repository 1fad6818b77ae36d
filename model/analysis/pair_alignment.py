"""Word alignment of a sentence and its translation with a hidden Markov model. NumPy only.

The HMM assigns each word of one sentence to a word of the other (Vogel et al. 1996, "HMM-Based Word Alignment in
Statistical Translation"). Its transitions prefer the word after the previous one. The posteriors of both directions are
multiplied (Liang et al. 2006, "Alignment by Agreement"). There are no trained parameters. The emission scores add up:

- the cosine of the encoder states of both words (Sabet et al. 2020, "SimAlign", with a language model),
- the probability that the decoder begins with the second word if it reads only the first, and the reverse,
- the cross-attention between both words during decoding,
- equal spelling, and whether one of the two is a punctuation mark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.analysis.attention_alignment import Link
from model.config import ModelConfig

Scores = NDArray[np.float32]

SIMILARITY, DICTIONARY, ATTENTION = 4.0, 0.8, 1.0
"""Weights of the cosine, of the decoder's log-probability, and of the logarithm of the attention share."""
SAME, MIXED = 3.0, -3.0
"""Scores added for words of equal spelling, and for a word paired with a punctuation mark."""
JUMP = 2.0
"""A transition d words away from the expected word has the weight (1 + |d|) ** -JUMP."""
LEAST_PROBABILITY = 0.45
"""Smallest geometric mean of both directions' probabilities for a link."""
_FLOOR, _LEAST_ATTENTION = 1e-4, 0.02


@dataclass(frozen=True, slots=True)
class WordedSentence:
    """Encoder input: ids with the language tag of the other sentence. `words` are ranges [first, end) of ids."""

    ids: tuple[int, ...]
    words: tuple[tuple[int, int], ...]

    @property
    def beginnings(self) -> tuple[int, ...]:
        """The first token of every word."""
        return tuple(self.ids[first] for first, _ in self.words)


@dataclass(frozen=True, slots=True)
class WordReading:
    """Evidence from one sentence of W words: `states` (L, S, d_model) after every encoder layer, and `beginnings` (W,
    V), the log-probability of each of V tokens as first target token if the decoder reads only one word."""

    states: Scores
    beginnings: Scores


@dataclass(frozen=True, slots=True)
class WordEvidence:
    """Scores (W, V) for the W words of one sentence and the V words of the other.

    `similarity` is the cosine of the words' encoder states, averaged over the layers. `forward` is the log-probability
    that the decoder begins with the second word if it reads only the first, `backward` the reverse.
    """

    similarity: Scores
    forward: Scores
    backward: Scores


def word_evidence(first: WordedSentence, second: WordedSentence, known: WordReading, back: WordReading) -> WordEvidence:
    """Combines the readings of both sentences, each with the first tokens of the other's words."""
    one, other = _means(known.states, first), _means(back.states, second)
    similarity = (one @ other.transpose(0, 2, 1)).mean(axis=0)
    return WordEvidence(similarity, known.beginnings, np.ascontiguousarray(back.beginnings.T))


def check_words(config: ModelConfig, sentence: WordedSentence, wanted: Sequence[int]) -> None:
    """Raises ValueError for a sentence of invalid length, words outside it, and tokens outside the vocabulary."""
    size = config.source_vocab_size or config.vocab_size
    if not 1 <= len(sentence.ids) <= config.max_length:
        raise ValueError(f"A sentence has {len(sentence.ids)} tokens; the model reads 1 to {config.max_length}.")
    if any(not 0 <= token < size for token in sentence.ids) or any(not 0 <= i < config.vocab_size for i in wanted):
        raise ValueError("A token is outside the model's vocabulary.")
    if any(not 0 <= first < end <= len(sentence.ids) for first, end in sentence.words):
        raise ValueError("A word lies outside its sentence.")


def alignment_probabilities(
    evidence: WordEvidence, attention: Scores, first: Sequence[str], second: Sequence[str]
) -> Scores:
    """Returns the link probabilities (W, V), the geometric mean of both directions. `attention` (W, V) is the
    cross-attention of each second word to each first word."""
    if not (first and second):
        return np.zeros((len(first), len(second)), dtype=np.float32)
    scores = fit(evidence, attention, first, second)
    return np.asarray(np.sqrt(posteriors(scores) * posteriors(scores.T).T), dtype=np.float32)


def links(probabilities: Scores) -> dict[Link, float]:
    """Returns the linked pairs of words (first, second) with their probabilities."""
    found = np.argwhere(probabilities > LEAST_PROBABILITY)
    return {(int(i), int(j)): float(probabilities[i, j]) for i, j in found}


def fit(evidence: WordEvidence, attention: Scores, first: Sequence[str], second: Sequence[str]) -> Scores:
    """Returns the emission scores (W, V), logarithms."""
    dictionary = _log_share(evidence.forward, axis=0) + _log_share(evidence.backward, axis=1)
    attended = attention / np.maximum(attention.sum(axis=0, keepdims=True), 1e-6)
    known = SIMILARITY * evidence.similarity + DICTIONARY * dictionary + ATTENTION * np.log(attended + _LEAST_ATTENTION)
    return np.asarray(known + _written(first, second), dtype=np.float32)


def posteriors(scores: Scores) -> Scores:
    """Forward-backward algorithm: probability of each hidden word for each observed word, columns sum to 1.

    Emission scores (n, m) -> (n, m). The expected hidden word is the one after the hidden word of the previous word.
    """
    n, m = scores.shape
    places = np.arange(n)
    distance = np.abs(places[None, :] - places[:, None] - 1)
    moves = (1.0 + distance) ** -JUMP  # from row to column
    moves /= moves.sum(axis=1, keepdims=True)
    emitted = np.exp(scores - scores.max(axis=0)).T.astype(np.float64)  # (m, n)
    before, after = np.empty((m, n)), np.ones((m, n))
    reached = (1.0 + places) ** -JUMP  # from the position before the first
    for t in range(m):
        before[t] = reached * emitted[t]
        before[t] /= before[t].sum()
        reached = before[t] @ moves
    for t in range(m - 2, -1, -1):
        after[t] = moves @ (emitted[t + 1] * after[t + 1])
        after[t] /= after[t].sum()
    found = before * after
    return np.asarray((found / found.sum(axis=1, keepdims=True)).T, dtype=np.float32)


def _means(states: Scores, sentence: WordedSentence) -> Scores:
    """Mean state of each word, minus the mean of all words, with length 1: (L, S, d_model) -> (L, W, d_model)."""
    averages = np.zeros((len(sentence.words), states.shape[1]), dtype=np.float32)
    for row, (start, end) in zip(averages, sentence.words, strict=True):
        row[start:end] = 1 / (end - start)
    means = averages @ states
    means -= means.mean(axis=1, keepdims=True) if sentence.words else 0
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-6), dtype=np.float32)


def _log_share(scores: Scores, axis: int) -> Scores:
    """Logarithm of each word's share of the probability along an axis, at least log(_FLOOR)."""
    shares = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(np.log(shares / shares.sum(axis=axis, keepdims=True) + _FLOOR), dtype=np.float32)


def _written(first: Sequence[str], second: Sequence[str]) -> Scores:
    """Scores (W, V) for equal spelling (names, numbers), and for a word paired with punctuation."""
    names, others = [_plain(word) for word in first], [_plain(word) for word in second]
    words = [any(map(str.isalnum, word)) for word in first]
    marks = [not any(map(str.isalnum, word)) for word in second]
    same = np.array([[a == b for b in others] for a in names], dtype=np.float32).reshape(len(names), len(others))
    return np.asarray(SAME * same + MIXED * np.equal.outer(words, marks), dtype=np.float32)


def _plain(word: str) -> str:
    """The word without case and accents."""
    return "".join(c for c in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(c))
