"""Word alignment of a sentence and its translation with a hidden Markov model. NumPy only.

The HMM assigns each word of one sentence to a word of the other (Vogel et al. 1996, "HMM-Based Word Alignment in
Statistical Translation") or to none (the empty word of Och & Ney 2003). Its transitions prefer the word after the
previous one. The posteriors of both directions are averaged. There are no trained parameters. The emission scores add
up:

- the cosine of the encoder states of both words (Sabet et al. 2020, "SimAlign", with a language model),
- the probability that the decoder begins with the second word if it reads only the first, and the reverse. The word may
  have a small or a capital first letter, because a decoder begins most sentences with a capital,
- what the word contributes to cross-attention while the other is decoded (`attention_alignment.alignment_map`),
- similar spelling, and whether one of the two is a punctuation mark.

The first two need a model that translates in both directions; without them the others decide alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from model.analysis.attention_alignment import Link
from model.config import ModelConfig

Scores = NDArray[np.float32]

SIMILARITY, DICTIONARY, ATTENTION = 8.0, 0.8, 1.2
"""Weights of the cosine, of the decoder's log-probability, and of the logarithm of the attention share."""
ALONE, OFFSET = 3.0, 2.6
"""Weight of the logarithm of the attention share without other evidence, and what is added to all scores then."""
SPELLING, MIXED = 3.0, -5.0
"""Scores added for words of equal spelling (less for those that begin alike), and for a word paired with a punctuation
mark."""
JUMP, JUMP_ALONE = 2.0, 1.0
"""A transition d words away from the expected word has the weight (1 + |d|) ** -JUMP, without other evidence than attention
JUMP_ALONE."""
EMPTY = -6.4
"""Score of the empty word: a word whose best score is lower is probably linked to none."""
LEAST_PROBABILITY, LEAST_BESIDE = 0.56, 0.37
"""Smallest mean of both directions' probabilities for a link, and for one beside a link: of a word to the same word as its
neighbour (grow-diag of Koehn et al. 2003)."""
_FLOOR, _LEAST_ATTENTION = 1e-4, 0.04


@dataclass(frozen=True, slots=True)
class WordedSentence:
    """Encoder input: ids with the language tag of the other sentence. `words` are ranges [first, end) of ids.

    `beginnings` are the first tokens of all words in one spelling, then in the next (`spellings`), each written alone.
    """

    ids: tuple[int, ...]
    words: tuple[tuple[int, int], ...]
    beginnings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WordReading:
    """Evidence from one sentence of W words: `states` (S, d_model) after the last encoder layer, and `beginnings` (W,
    N), the log-probability of each of N tokens as first target token if the decoder reads only one word."""

    states: Scores
    beginnings: Scores


@dataclass(frozen=True, slots=True)
class WordEvidence:
    """Scores (W, V) for the W words of one sentence and the V words of the other.

    `similarity` is the cosine of the words' states after the last encoder layer. `forward` is the log-probability that
    the decoder begins with the second word if it reads only the first, averaged over the spellings, `backward` the reverse.
    """

    similarity: Scores
    forward: Scores
    backward: Scores


def word_evidence(first: WordedSentence, second: WordedSentence, forth: WordReading, back: WordReading) -> WordEvidence:
    """Combines the readings of both sentences, each with the beginnings of the other's words."""
    similarity = _means(forth.states, first) @ _means(back.states, second).T
    forward, backward = _over_spellings(forth, second), _over_spellings(back, first)
    return WordEvidence(similarity, forward, np.ascontiguousarray(backward.T))


def spellings(texts: Sequence[str]) -> list[str]:
    """Returns all words with a small first letter, then all with a capital."""
    small = [text[:1].lower() + text[1:] for text in texts]
    return small + [text[:1].upper() + text[1:] for text in texts]


def check_words(config: ModelConfig, sentence: WordedSentence, tokens: Sequence[int]) -> None:
    """Raises ValueError for a sentence of invalid length, words outside it, and tokens outside the vocabulary."""
    size = config.source_vocab_size or config.vocab_size
    if not 1 <= len(sentence.ids) <= config.max_length:
        raise ValueError(f"A sentence has {len(sentence.ids)} tokens; the model reads 1 to {config.max_length}.")
    if any(not 0 <= token < size for token in sentence.ids) or any(not 0 <= i < config.vocab_size for i in tokens):
        raise ValueError("A token is outside the model's vocabulary.")
    if any(not 0 <= first < end <= len(sentence.ids) for first, end in sentence.words):
        raise ValueError("A word lies outside its sentence.")


def alignment_probabilities(
    evidence: WordEvidence | None, attention: Scores, first: Sequence[str], second: Sequence[str]
) -> Scores:
    """Returns the link probabilities (W, V), the mean of both directions. `attention` (W, V) is what each first word
    contributes to each second word; without `evidence` it decides together with the spelling and the order."""
    if not (first and second):
        return np.zeros((len(first), len(second)), dtype=np.float32)
    scores, jump = fit(evidence, attention, first, second), JUMP if evidence else JUMP_ALONE
    return np.asarray((posteriors(scores, jump) + posteriors(scores.T, jump).T) / 2, dtype=np.float32)


def links(probabilities: Scores) -> dict[Link, float]:
    """Returns the linked pairs of words (first, second) with their probabilities."""
    sure = np.pad(probabilities > LEAST_PROBABILITY, 1)
    beside = sure[:-2, 1:-1] | sure[2:, 1:-1] | sure[1:-1, :-2] | sure[1:-1, 2:]
    pairs = np.argwhere(sure[1:-1, 1:-1] | (beside & (probabilities > LEAST_BESIDE)))
    return {(int(i), int(j)): float(probabilities[i, j]) for i, j in pairs}


def fit(evidence: WordEvidence | None, attention: Scores, first: Sequence[str], second: Sequence[str]) -> Scores:
    """Returns the emission scores (W, V), logarithms."""
    attended = np.log(attention / np.maximum(attention.sum(axis=0, keepdims=True), 1e-6) + _LEAST_ATTENTION)
    if evidence is None:
        scores = ALONE * attended + OFFSET
    else:
        dictionary = _log_share(evidence.forward, axis=0) + _log_share(evidence.backward, axis=1)
        scores = SIMILARITY * evidence.similarity + DICTIONARY * dictionary + ATTENTION * attended
    return np.asarray(scores + _written(first, second), dtype=np.float32)


def posteriors(scores: Scores, jump: float = JUMP) -> Scores:
    """Forward-backward algorithm: probability of each hidden word for each observed word. A column sums to 1 minus the
    probability of the empty word.

    Emission scores (n, m) -> (n, m). The expected hidden word is the one after the last hidden word; the empty word does
    not move it.
    """
    n, m = scores.shape
    moves = _moves(n, jump)
    highest = np.maximum(scores.max(axis=0), EMPTY)
    emitted = np.zeros((m, n + 1))  # column 0: before the first hidden word
    emitted[:, 1:] = np.exp((scores - highest).T.astype(np.float64))
    empty = np.exp((EMPTY - highest).astype(np.float64))  # (m,)
    before, after = np.eye(m + 1, n + 1), np.ones((m + 1, n + 1))  # row t: the last hidden word before observed word t
    for t, (each, none) in enumerate(zip(emitted, empty.tolist(), strict=True)):
        last = before[t] @ moves * each + before[t] * none
        np.divide(last, last.sum(), out=before[t + 1])
    for t in range(m - 1, 0, -1):
        last = moves @ (emitted[t] * after[t + 1]) + after[t + 1] * empty[t]
        np.divide(last, last.sum(), out=after[t])
    linked = ((before[:-1] @ moves) * emitted * after[1:])[:, 1:]  # (m, n)
    unlinked = (before[:-1] * after[1:]).sum(axis=1) * empty
    return np.asarray((linked / (linked.sum(axis=1) + unlinked)[:, None]).T, dtype=np.float32)


@lru_cache(maxsize=128)
def _moves(words: int, jump: float) -> NDArray[np.float64]:
    """Returns the probabilities of the moves from the last hidden word, row 0 before the first, to a hidden word, column 0 for
    none: (words + 1, words + 1)."""
    distance = np.abs(np.arange(words)[None, :] - np.arange(words + 1)[:, None])
    moves = np.zeros((words + 1, words + 1))
    moves[:, 1:] = (1.0 + distance) ** -jump
    moves /= moves.sum(axis=1, keepdims=True)
    return moves


def _means(states: Scores, sentence: WordedSentence) -> Scores:
    """Mean state of each word, minus the mean of all words, with length 1: (S, d_model) -> (W, d_model)."""
    averages = np.zeros((len(sentence.words), len(states)), dtype=np.float32)
    for row, (start, end) in zip(averages, sentence.words, strict=True):
        row[start:end] = 1 / (end - start)
    means = averages @ states
    means -= means.mean(axis=0) if sentence.words else 0
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-6), dtype=np.float32)


def _over_spellings(reading: WordReading, other: WordedSentence) -> Scores:
    """Mean log-probability of the beginnings of each word of the other sentence, (W, N) -> (W, V)."""
    count = len(other.words)
    if not count:
        return reading.beginnings[:, :0]
    each = reading.beginnings.reshape(len(reading.beginnings), -1, count)
    return np.asarray(each.mean(axis=1), dtype=np.float32)


def _log_share(scores: Scores, axis: int) -> Scores:
    """Logarithm of each word's share of the probability along an axis, at least log(_FLOOR)."""
    shares = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(np.log(shares / shares.sum(axis=axis, keepdims=True) + _FLOOR), dtype=np.float32)


def _written(first: Sequence[str], second: Sequence[str]) -> Scores:
    """Scores (W, V) for similar spelling (names, numbers, cognates), and for a word paired with punctuation."""
    names, others = [_plain(word) for word in first], [_plain(word) for word in second]
    words = [any(map(str.isalnum, word)) for word in first]
    marks = [not any(map(str.isalnum, word)) for word in second]
    alike = np.array([[a[:3] == b[:3] and _alike(a, b) for b in others] for a in names], dtype=np.float32)
    alike = alike.reshape(len(names), len(others))
    return np.asarray(SPELLING * alike + MIXED * np.equal.outer(words, marks), dtype=np.float32)


def _alike(first: str, second: str) -> float:
    """The share of letters in the common beginning of two words with three equal letters; 1 for equal words."""
    if first == second or not (first + second).isalpha() or len(first) < 3:
        return float(first == second)
    pairs = zip(first, second, strict=False)
    return 2 * sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) / (len(first) + len(second))


def _plain(word: str) -> str:
    """The word without case and accents."""
    return "".join(c for c in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(c))
