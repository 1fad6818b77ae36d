"""IBM model 1 (Brown et al. 1993): probabilities that a source token becomes a target token, from sentence pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ITERATIONS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """Entry i: token `sources[i]` becomes token `targets[i]` with `probabilities[i]`. Sorted by source, then target."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    def likely(self, least: float) -> Lexicon:
        """Returns the entries with at least the probability `least`."""
        kept = self.probabilities >= least
        return Lexicon(self.sources[kept], self.targets[kept], self.probabilities[kept])


@dataclass(frozen=True, slots=True, eq=False)
class TokenPairs:
    """Sentence pairs as concatenated token ids: pair i has the next `source_lengths[i]` tokens of `sources`, and so
    for targets. No length is 0."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    source_lengths: NDArray[np.int64]
    target_lengths: NDArray[np.int64]


def learn_lexicon(pairs: TokenPairs, vocabulary: int, iterations: int = ITERATIONS) -> Lexicon:
    """Returns the lexicon of `pairs` by expectation maximisation from equal probabilities.

    A token that occurs in all sources, such as the language tag, takes the part of Brown's empty word. The memory is some
    30 bytes for each combination of a source and a target token of the same pair.
    """
    lengths = np.repeat(pairs.source_lengths, pairs.target_lengths)  # sources that each target token may come from
    starts = np.cumsum(lengths) - lengths
    first = np.repeat(np.cumsum(pairs.source_lengths) - pairs.source_lengths, pairs.target_lengths)
    places = np.arange(lengths.sum()) + np.repeat(first - starts, lengths)
    cells = pairs.sources[places] * vocabulary + np.repeat(pairs.targets, lengths)
    entries, entry = np.unique(cells, return_inverse=True)
    del cells, places
    sources, targets = np.divmod(entries, vocabulary)
    probabilities = np.ones(len(entries))
    for _ in range(iterations):
        shares = probabilities.astype(np.float32)[entry]
        shares /= np.repeat(np.add.reduceat(shares, starts), lengths)
        counts = np.bincount(entry, shares, len(entries))
        probabilities = counts / np.bincount(sources, counts, vocabulary)[sources]
    return Lexicon(sources, targets, probabilities)
