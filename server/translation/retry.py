"""The second decoding of a sentence whose translation is probably wrong, and the width of beams that are to find more."""

from __future__ import annotations

import math
from dataclasses import replace

from model.search.options import DecodingOptions, Hypothesis
from model.search.search import normalize
from server.translation.types import FAULTS, Sentence

WIDEST_BEAM = 16
_LEAST_BEAM = 4
_NGRAM = 3


def wider_beam(beam: int) -> int:
    """Returns the beam width of a retry, or of a list for reranking: twice the width of the first decoding, at least 4
    and at most 16, and never smaller than the first."""
    return max(beam, min(WIDEST_BEAM, max(_LEAST_BEAM, 2 * beam)))


def retry_options(options: DecodingOptions) -> DecodingOptions:
    """Returns the options of a retry: a wider beam, and no sequence of three tokens twice."""
    return replace(
        options,
        beam_size=wider_beam(options.beam_size),
        no_repeat_ngram_size=options.no_repeat_ngram_size or _NGRAM,
    )


def is_better(other: Sentence, first: Sentence, options: DecodingOptions) -> bool:
    """Returns whether a retry has fewer FAULTS than the first translation, or as many and a higher score of the search
    (`Hypothesis.score` may be that of both directions)."""
    faults = len(other.flags & FAULTS), len(first.flags & FAULTS)
    if faults[0] != faults[1] or not (other.hypotheses and first.hypotheses):
        return faults[0] < faults[1]
    return search_score(other.hypotheses[0], options) > search_score(first.hypotheses[0], options)


def search_score(hypothesis: Hypothesis, options: DecodingOptions) -> float:
    """Returns the log-probability of a hypothesis divided by the length penalty."""
    length = max(1, len(hypothesis.token_scores)) + (options.first_token is not None)
    return normalize(math.fsum(hypothesis.token_scores), length, options)
