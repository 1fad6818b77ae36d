"""Word alignment of a sentence and its translation with a hidden Markov model. NumPy only.

The HMM assigns each word of one sentence to a word of the other (Vogel et al. 1996, "HMM-Based Word
Alignment in Statistical Translation") or to none (the empty word of Och & Ney 2003). Its
transitions prefer the word after the previous one. The posteriors of both directions are averaged.
There are no trained parameters. The emission scores add up:

- the cosine of the encoder states of both words (Sabet et al. 2020, "SimAlign", with a language
  model),
- the probability that the decoder begins with the second word if it reads only the first, and the
  reverse: the mean for a small and a capital first letter, because most sentences begin with a
  capital,
- what the word contributes to cross-attention while the other is decoded
  (`attention_alignment.alignment_map`),
- similar spelling, and whether one of the two is a punctuation mark.

The first two need a model that translates in both directions; without them the others decide alone.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from model.analysis.attention_alignment import between_runs
from model.config import ModelConfig

Scores = NDArray[np.float32]

SIMILARITY, DICTIONARY, ATTENTION = 8.0, 0.8, 1.2
"""Weights of the cosine, the decoder's log-probability, and the logarithm of the attention
share."""
ALONE, OFFSET = 3.0, 2.6
"""Weight of the logarithm of the attention share without other evidence, and what is added to all
scores then."""
SPELLING, MIXED, GENITIVE = 3.0, -5.0, -7.5
"""Scores for words of equal spelling (less for those that begin alike), for a word paired with a
punctuation mark, and for 's paired with another word. A genitive has no word in other languages, or
a preposition, and would be linked to the article of another noun ("Peter's car", "la voiture de
Peter"). For "is" the other evidence outweighs it."""
JUMP, JUMP_ALONE = 2.0, 1.0
"""A transition d words away from the expected word has the weight (1 + |d|) ** -JUMP, or
-JUMP_ALONE if attention is the only evidence."""
EMPTY = -6.4
"""Score of the empty word: a word whose best score is lower is probably not linked."""
LEAST_PROBABILITY, LEAST_BESIDE = 0.56, 0.37
"""Smallest mean of both directions' probabilities for a link, and for one beside a link: of a word
to the same word as its neighbour (grow-diag of Koehn et al. 2003)."""
CERTAIN, FARTHEST = 0.99, 3
"""Least probability at which a target word without a link is linked to a source word, and the
largest distance of another target word of this source word: the parts of "ne ... pas"."""
_FLOOR, _LEAST_ATTENTION = 1e-4, 0.04
_WIDTH = 16
"""The words of a batch are padded to a multiple of this, so that links do not depend on other
pairs."""
_PAUSE = 1 << 23
"""Multiplications between two pauses: about five milliseconds."""
WordLink = tuple[int, int, float]
"""(word of the source, word of the target, probability), counted from 0."""
Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WordedSentence:
    """Encoder input: ids with the language tag of the other sentence. `words` are ranges [first,
    end) of ids. `beginnings` are the first tokens of all words in one spelling, then in the next
    (`spellings`), each written alone."""

    ids: tuple[int, ...]
    words: tuple[tuple[int, int], ...]
    beginnings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PairWords:
    """The W words of a source and the V words of its target that are to be linked. `runs` are their
    tokens [first, end): of the source as it is read, of the target as it is written. `marks` and
    `genitives` are the numbers of words that are punctuation or 's, `alike` the similarity (0 to 1)
    of the spelling of two words. `read` are both sentences as the encoder reads them; without it,
    attention and spelling decide alone."""

    runs: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
    marks: tuple[Numbers, Numbers]
    alike: tuple[tuple[int, int, float], ...]
    read: tuple[WordedSentence, WordedSentence] | None = None
    genitives: tuple[Numbers, Numbers] = ((), ())


@dataclass(frozen=True, slots=True)
class WordReading:
    """Evidence from one sentence of W words: `states` (S, d_model) after the last encoder layer,
    and `beginnings` (W, N), the log-probability of N tokens as first target token if the decoder
    reads only one word."""

    states: Scores
    beginnings: Scores


@dataclass(frozen=True, slots=True)
class WordEvidence:
    """Scores (W, V) for W words of one sentence and V words of the other.

    `similarity` is the cosine of their states. `forward` is the log-probability that the decoder
    begins with the second word if it reads only the first, averaged over the spellings, `backward`
    the reverse.
    """

    similarity: Scores
    forward: Scores
    backward: Scores


def word_evidence(
    first: WordedSentence, second: WordedSentence, forth: WordReading, back: WordReading
) -> WordEvidence:
    """Combines the readings of both sentences, each with the beginnings of the other's words."""
    similarity = _means(forth.states, first) @ _means(back.states, second).T
    forward, backward = _over_spellings(forth, second), _over_spellings(back, first)
    return WordEvidence(similarity, forward, np.ascontiguousarray(backward.T))


def spellings(texts: Sequence[str]) -> list[str]:
    """Returns all words with a small first letter, then all with a capital."""
    small = [text[:1].lower() + text[1:] for text in texts]
    return small + [text[:1].upper() + text[1:] for text in texts]


def check_words(config: ModelConfig, sentence: WordedSentence, tokens: Sequence[int]) -> None:
    """Raises ValueError for a sentence of invalid length, words outside it, and unknown tokens."""
    size = config.source_vocab_size or config.vocab_size
    if not 1 <= len(sentence.ids) <= config.max_length:
        raise ValueError(
            f"A sentence has {len(sentence.ids)} tokens; the model reads 1 to {config.max_length}."
        )
    wanted = tokens or (0,)
    if not (
        0 <= min(sentence.ids) <= max(sentence.ids) < size
        and 0 <= min(wanted) <= max(wanted) < config.vocab_size
    ):
        raise ValueError("A token is outside the model's vocabulary.")
    if any(not 0 <= first < end <= len(sentence.ids) for first, end in sentence.words):
        raise ValueError("A word lies outside its sentence.")


def check_runs(words: PairWords, lengths: tuple[int, int]) -> None:
    """Raises ValueError for words outside a source and a target of these lengths, or out of
    order."""
    for runs, length, *marks in zip(words.runs, lengths, words.marks, words.genitives, strict=True):
        bounds = [0, *(bound for run in runs for bound in run), length]
        if any(a > b for a, b in pairwise(bounds)) or any(first == end for first, end in runs):
            raise ValueError("A word lies outside its sentence.")
        if any(not 0 <= mark < len(runs) for mark in chain(*marks)):
            raise ValueError("A mark is not one of the words.")
    read = words.read or ()
    if any(
        len(sentence.words) != len(runs) for sentence, runs in zip(read, words.runs, strict=False)
    ):
        raise ValueError("A sentence has other words as it is read.")
    if any(
        not (0 <= i < len(words.runs[0]) and 0 <= j < len(words.runs[1])) for i, j, _ in words.alike
    ):
        raise ValueError("Words that are not there cannot be alike.")


def compared(
    first: Sequence[str], second: Sequence[str]
) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers], tuple[WordLink, ...]]:
    """Returns the punctuation marks and the genitives of two sentences, and their words that are
    spelled alike (names, numbers, cognates)."""
    plain = [[_plain(word) for word in side] for side in (first, second)]
    by_beginning: defaultdict[str, list[int]] = defaultdict(list)
    for j, word in enumerate(plain[1]):
        by_beginning[word[:3]].append(j)
    alike = [
        (i, j, similar)
        for i, word in enumerate(plain[0])
        for j in by_beginning.get(word[:3], ())
        if (similar := _alike(word, plain[1][j]))
    ]
    marks, genitives = [
        (_numbers_of(first, kind), _numbers_of(second, kind))
        for kind in (
            lambda word: not any(map(str.isalnum, word)),
            lambda word: word in ("'s", "’s"),
        )
    ]
    return marks, genitives, tuple(alike)


def _numbers_of(words: Sequence[str], is_kind: Callable[[str], bool]) -> Numbers:
    return tuple([number for number, word in enumerate(words) if is_kind(word)])


def word_links(
    pairs: Sequence[tuple[PairWords, WordEvidence | None, Scores]],
) -> Generator[None, None, list[tuple[WordLink, ...]]]:
    """Returns the links of each pair of sentences: its words, the evidence of its readings, and the
    soft alignment (T, S) of its tokens. Yields where other work may run."""
    scores: list[Scores] = []
    jumps = [JUMP_ALONE if evidence is None else JUMP for _, evidence, _ in pairs]
    for words, evidence, soft in pairs:
        scores.append(fit(words, evidence, between_runs(soft, *words.runs)))
    hidden = yield from posteriors(
        [*scores, *(emissions.T for emissions in scores)], [*jumps, *jumps]
    )
    count = len(pairs)
    return [
        links(
            np.asarray((hidden[k] + hidden[count + k].T) / 2, dtype=np.float32), hidden[k] > CERTAIN
        )
        for k in range(count)
    ]


def links(probabilities: Scores, certain: NDArray[np.bool_]) -> tuple[WordLink, ...]:
    """Returns the linked pairs of words with their probabilities (W, V), the means of both
    directions. `certain` (W, V) are the pairs whose second word is certain in its own direction."""
    sure = np.zeros((probabilities.shape[0] + 2, probabilities.shape[1] + 2), dtype=bool)
    np.greater(probabilities, LEAST_PROBABILITY, out=sure[1:-1, 1:-1])
    beside = sure[:-2, 1:-1] | sure[2:, 1:-1] | sure[1:-1, :-2] | sure[1:-1, 2:]
    linked = sure[1:-1, 1:-1] | (beside & (probabilities > LEAST_BESIDE))
    near = np.zeros_like(linked)
    for distance in range(1, FARTHEST + 1):
        near[:, distance:] |= linked[:, :-distance]
        near[:, :-distance] |= linked[:, distance:]
    rows, columns = np.nonzero(linked | (certain & near & ~linked.any(axis=0)))
    return tuple(
        zip(rows.tolist(), columns.tolist(), probabilities[rows, columns].tolist(), strict=True)
    )


def fit(words: PairWords, evidence: WordEvidence | None, attention: Scores) -> Scores:
    """Returns the emission scores (W, V), logarithms. `attention` (W, V) is what each first word
    contributes to each second word; without `evidence` it decides with the spelling and the
    order."""
    attended = np.log(
        attention / np.maximum(attention.sum(axis=0, keepdims=True), 1e-6) + _LEAST_ATTENTION
    )
    if evidence is None:
        scores = ALONE * attended + OFFSET
    elif attention.size:
        dictionary = _log_share(evidence.forward, axis=0) + _log_share(evidence.backward, axis=1)
        scores = SIMILARITY * evidence.similarity + DICTIONARY * dictionary + ATTENTION * attended
    else:
        scores = attended
    return np.asarray(scores + _written(words), dtype=np.float32)


def posteriors(
    scores: Sequence[Scores], jumps: Sequence[float]
) -> Generator[None, None, list[Scores]]:
    """Forward-backward algorithm: returns the probability of each hidden word for each observed
    word. A column sums to 1 minus the probability of the empty word. Yields where other work may
    run.

    Emission scores (n, m) of each pair -> (n, m). The expected hidden word follows the last hidden
    word; the empty word does not move it. A pair's jump says how much transitions prefer it.
    """
    probabilities = [np.zeros(emissions.shape, dtype=np.float32) for emissions in scores]
    batches: defaultdict[int, list[int]] = defaultdict(list)
    for number, emission in enumerate(scores):
        if emission.size:
            batches[(emission.shape[0] // _WIDTH + 1) * _WIDTH].append(number)
    for width, numbers in batches.items():
        longest = max(scores[number].shape[1] for number in numbers)
        emitted, empty = (
            np.zeros((longest, len(numbers), width)),
            np.ones((longest, len(numbers), 1)),
        )
        # shorter ones begin later, so what is padded changes no bit
        for place, number in enumerate(numbers):
            emission = scores[number]
            highest = np.maximum(emission.max(axis=0), EMPTY)
            first = longest - emission.shape[1]
            emitted[first:, place, 1 : emission.shape[0] + 1] = np.exp(
                (emission - highest).T.astype(np.float64)
            )
            empty[first:, place, 0] = np.exp((EMPTY - highest).astype(np.float64))
        moves = np.stack(
            [_moves(scores[number].shape[0], jumps[number], width) for number in numbers]
        )
        linked = yield from _forward_backward(emitted, empty, moves)
        for place, number in enumerate(numbers):
            n, m = scores[number].shape
            probabilities[number] = linked[longest - m :, place, 1 : n + 1].T.astype(np.float32)
    return probabilities


def _forward_backward(
    emitted: NDArray[np.float64], empty: NDArray[np.float64], moves: NDArray[np.float64]
) -> Generator[None, None, NDArray[np.float64]]:
    """Returns the posteriors (m, B, N) of B pairs: emissions (m, B, N), those of the empty word (m,
    B, 1), and transitions (B, N, N), whose column 0 stands for before the first hidden word."""
    m, count, width = emitted.shape
    before, after = np.zeros((m + 1, count, width)), np.ones((m + 1, count, width))
    moved = np.empty((m, count, width))
    before[0, :, 0] = 1.0
    work = 0
    for t in range(m):
        np.matmul(before[t][:, None], moves, out=moved[t][:, None])
        last = moved[t] * emitted[t] + before[t] * empty[t]
        np.divide(last, last.sum(axis=1, keepdims=True), out=before[t + 1])
        work += moves.size
        if work > _PAUSE:
            work = 0
            yield
    for t in range(m - 1, 0, -1):
        last = (moves @ (emitted[t] * after[t + 1])[:, :, None])[:, :, 0] + after[t + 1] * empty[t]
        np.divide(last, last.sum(axis=1, keepdims=True), out=after[t])
        work += moves.size
        if work > _PAUSE:
            work = 0
            yield
    linked = moved * emitted * after[1:]
    unlinked = (before[:-1] * after[1:]).sum(axis=2, keepdims=True) * empty
    return np.asarray(linked / (linked.sum(axis=2, keepdims=True) + unlinked))


@lru_cache(maxsize=128)
def _moves(words: int, jump: float, width: int) -> NDArray[np.float64]:
    """Returns the probabilities (width, width) of moves from the last hidden word, row 0 before the
    first, to a hidden word, column 0 for none; zeros for padding."""
    distance = np.abs(np.arange(words)[None, :] - np.arange(words + 1)[:, None])
    weights = (1.0 + distance) ** -jump
    moves = np.zeros((width, width))
    moves[: words + 1, 1 : words + 1] = weights / weights.sum(axis=1, keepdims=True)
    return moves


def _means(states: Scores, sentence: WordedSentence) -> Scores:
    """Mean state of each word, minus the mean of all words, with length 1: (S, d_model) -> (W,
    d_model)."""
    averages = np.zeros((len(sentence.words), len(states)), dtype=np.float32)
    for row, (start, end) in zip(averages, sentence.words, strict=True):
        row[start:end] = 1 / (end - start)
    means = averages @ states
    means -= means.mean(axis=0) if sentence.words else 0
    return np.asarray(
        means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-6), dtype=np.float32
    )


def _over_spellings(reading: WordReading, other: WordedSentence) -> Scores:
    """Mean log-probability of the beginnings of the other sentence's words, (W, N) -> (W, V)."""
    count = len(other.words)
    if not count:
        return reading.beginnings[:, :0]
    spellings = reading.beginnings.reshape(len(reading.beginnings), -1, count)
    return np.asarray(spellings.mean(axis=1), dtype=np.float32)


def _log_share(scores: Scores, axis: int) -> Scores:
    """Logarithm of each word's share of the probability along an axis, at least log(_FLOOR)."""
    shares = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(
        np.log(shares / shares.sum(axis=axis, keepdims=True) + _FLOOR), dtype=np.float32
    )


def _written(words: PairWords) -> Scores:
    """Scores (W, V) for similar spelling, and for a word paired with punctuation or a genitive."""
    scores = np.zeros((len(words.runs[0]), len(words.runs[1])), dtype=np.float32)
    for sides, score in ((words.marks, MIXED), (words.genitives, GENITIVE)):
        first, second = np.zeros(len(scores), dtype=bool), np.zeros(scores.shape[1], dtype=bool)
        first[list(sides[0])], second[list(sides[1])] = True, True
        scores[first[:, None] != second] += score
    for i, j, similar in words.alike:
        scores[i, j] += SPELLING * similar
    return scores


def _alike(first: str, second: str) -> float:
    """The share of letters in the common beginning of words with three equal letters; 1 for equal
    words."""
    if first == second or not (first + second).isalpha() or len(first) < 3:
        return float(first == second)
    pairs = zip(first, second, strict=False)
    return (
        2
        * sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        / (len(first) + len(second))
    )


def _plain(word: str) -> str:
    if word.isascii():
        return word.lower()
    return "".join(
        c for c in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(c)
    )
