"""Word alignment of two sentences from all that a model knows about their words. NumPy only, no torch.

A hidden Markov model walks over the words of one sentence and says which word of the other each belongs to (Vogel et al.
1996, "HMM-Based Word Alignment in Statistical Translation"): a word is likelier the better it fits, and the closer it
follows the word before. Both directions are asked, and what they agree on counts (Liang et al. 2006, "Alignment by
Agreement"). Nothing here is trained. How well words fit is asked of a model that translates both ways: both sentences
go through the same encoder, whose states of words that mean the same are close (Sabet et al. 2020, "SimAlign", does this
with a language model), and the decoder is a dictionary: confined to one word, it says what that word may become. What
each word attended to when it was written is heard too.
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
"""How much a cosine of 1, a log-probability of the dictionary, and the logarithm of a share of attention are worth."""
SAME, MIXED = 3.0, -3.0
"""What is added for two words that are written alike, and for a word beside a punctuation mark."""
JUMP = 2.0
"""A jump to a word d places from the expected one is (1 + |d|) ** -JUMP as likely."""
LEAST_PROBABILITY = 0.45
"""Two words are linked where the geometric mean of both directions' probabilities is above this."""
_FLOOR, _LEAST_ATTENTION = 1e-4, 0.02


@dataclass(frozen=True, slots=True)
class WordedSentence:
    """A sentence as the encoder reads it, tagged with the language of the other one. `words` are runs [first, past the
    last) of its ids."""

    ids: tuple[int, ...]
    words: tuple[tuple[int, int], ...]

    @property
    def beginnings(self) -> tuple[int, ...]:
        """The first piece of every word."""
        return tuple(self.ids[first] for first, _ in self.words)


@dataclass(frozen=True, slots=True)
class WordReading:
    """What a model knows of a sentence word by word: its `states` (L, S, d_model) after every encoder layer, and
    `beginnings` (W, V), the log-probability that the decoder begins with a token when it sees nothing but a word."""

    states: Scores
    beginnings: Scores


@dataclass(frozen=True, slots=True)
class WordEvidence:
    """How well W words of one sentence and V words of another fit, (W, V) each.

    `similarity` is the cosine of the words' encoder states, averaged over the layers. `forward` is the log-probability
    that the decoder begins with the second word when it sees nothing but the first, `backward` the reverse.
    """

    similarity: Scores
    forward: Scores
    backward: Scores


def word_evidence(
    first: WordedSentence, second: WordedSentence, known: WordReading, back: WordReading
) -> WordEvidence:
    """Evidence from what the model knows of each sentence with the beginnings of the other's words."""
    one, other = _means(known.states, first), _means(back.states, second)
    similarity = (one @ other.transpose(0, 2, 1)).mean(axis=0)
    return WordEvidence(similarity, known.beginnings, np.ascontiguousarray(back.beginnings.T))


def check_words(config: ModelConfig, sentence: WordedSentence, wanted: Sequence[int]) -> None:
    """Raises ValueError for a sentence that the model cannot read, words outside it, and unknown tokens."""
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
    """Probability (W, V) that two words belong together: the geometric mean of what both directions find. `attention`
    (W, V) is how much each second word attended to each first word when it was written."""
    if not (first and second):
        return np.zeros((len(first), len(second)), dtype=np.float32)
    scores = fit(evidence, attention, first, second)
    return np.asarray(np.sqrt(posteriors(scores) * posteriors(scores.T).T), dtype=np.float32)


def links(probabilities: Scores) -> dict[Link, float]:
    """The pairs of words (first, second) that belong together, with their probabilities."""
    found = np.argwhere(probabilities > LEAST_PROBABILITY)
    return {(int(i), int(j)): float(probabilities[i, j]) for i, j in found}


def fit(evidence: WordEvidence, attention: Scores, first: Sequence[str], second: Sequence[str]) -> Scores:
    """How well each pair of words fits, in logarithms: (W, V)."""
    dictionary = _log_share(evidence.forward, axis=0) + _log_share(evidence.backward, axis=1)
    attended = attention / np.maximum(attention.sum(axis=0, keepdims=True), 1e-6)
    known = SIMILARITY * evidence.similarity + DICTIONARY * dictionary + ATTENTION * np.log(attended + _LEAST_ATTENTION)
    return np.asarray(known + _written(first, second), dtype=np.float32)


def posteriors(scores: Scores) -> Scores:
    """Probability of every hidden word at every observed one, by forward-backward: scores (n, m) -> (n, m), columns sum
    to 1. The hidden word of each observed word is expected one place after that of the word before."""
    n, m = scores.shape
    places = np.arange(n)
    distance = np.abs(places[None, :] - places[:, None] - 1)
    moves = (1.0 + distance) ** -JUMP  # from row to column
    moves /= moves.sum(axis=1, keepdims=True)
    emitted = np.exp(scores - scores.max(axis=0)).T.astype(np.float64)  # (m, n)
    before, after = np.empty((m, n)), np.ones((m, n))
    reached = (1.0 + places) ** -JUMP  # as if from the place before the first
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
    """States (L, S, d_model) -> (L, W, d_model), each word's mean, of length 1 and relative to the mean of all words: what
    is common to a sentence says nothing about a word."""
    averages = np.zeros((len(sentence.words), states.shape[1]), dtype=np.float32)
    for row, (start, end) in zip(averages, sentence.words, strict=True):
        row[start:end] = 1 / (end - start)
    means = averages @ states
    means -= means.mean(axis=1, keepdims=True) if sentence.words else 0
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-6), dtype=np.float32)


def _log_share(scores: Scores, axis: int) -> Scores:
    """Logarithm of each word's share of the probability along an axis, never below that of _FLOOR."""
    shares = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(np.log(shares / shares.sum(axis=axis, keepdims=True) + _FLOOR), dtype=np.float32)


def _written(first: Sequence[str], second: Sequence[str]) -> Scores:
    """What the spelling says: names and numbers are written alike, and punctuation does not translate words."""
    names, others = [_plain(word) for word in first], [_plain(word) for word in second]
    words = [any(map(str.isalnum, word)) for word in first]
    marks = [not any(map(str.isalnum, word)) for word in second]
    same = np.array([[a == b for b in others] for a in names], dtype=np.float32).reshape(len(names), len(others))
    return np.asarray(SAME * same + MIXED * np.equal.outer(words, marks), dtype=np.float32)


def _plain(word: str) -> str:
    """Without case and accents."""
    return "".join(c for c in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(c))
