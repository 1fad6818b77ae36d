"""IBM model 1 (Brown et al. 1993): probabilities that a source token becomes a target token, from
sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Lexicon = tuple[Ids, Ids, NDArray[np.float64]]
"""Sources, targets and probabilities: token sources[i] becomes token targets[i]. Sorted by source,
then target."""


def learn_lexicon(
    pairs: Sequence[tuple[Ids, Ids]], vocabulary: int, least: float = 0.0, iterations: int = 5
) -> Lexicon:
    """Returns the lexicon of `pairs` (source, target) by expectation maximisation from equal
    probabilities, without the entries below the probability `least`.

    A token that occurs in all sources, such as the language tag, takes the part of Brown's empty
    word. The memory is some 30 bytes for each combination of a source and a target token of the
    same pair.
    """
    source_lengths, target_lengths = (
        np.array([len(pair[side]) for pair in pairs]) for side in (0, 1)
    )
    # sources that each target token may come from
    lengths = np.repeat(source_lengths, target_lengths)
    starts = np.cumsum(lengths) - lengths
    cells = np.concatenate(
        [(target[:, None] + vocabulary * source).ravel() for source, target in pairs]
    )
    entries, entry = np.unique(cells, return_inverse=True)
    del cells
    sources, targets = np.divmod(entries, vocabulary)
    probabilities = np.ones(len(entries))
    for _ in range(iterations):
        shares = probabilities.astype(np.float32)[entry]
        shares /= np.repeat(np.add.reduceat(shares, starts), lengths)
        counts = np.bincount(entry, shares, len(entries))
        probabilities = counts / np.bincount(sources, counts, vocabulary)[sources]
    kept = probabilities >= least
    return sources[kept], targets[kept], probabilities[kept]
