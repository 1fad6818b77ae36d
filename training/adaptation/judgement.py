"""Scores of a model before and after its adaptation, with bootstrap intervals of their
difference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF

import training
from model.evaluation import SPACELESS, bleu_of
from model.pairs import KEPT_SHARE, MOST_KEPT
from training.data.corpus import read_pairs

LIKELY_PAIRS = 5_000
"""Pairs that sufficed for each measured model (docs/adapt.md)."""
MOST_LOST = 1.0
"""chrF that the general set may lose."""
_RESAMPLES = 1000
_WRITTEN, _GENERAL = Path(training.__file__).parent / "recipes" / "written", 200

Rows = NDArray[np.float64]
"""What a score is computed from, a row for each sentence: rows of several sentences are added."""


class Sentence(NamedTuple):
    """A sentence that judges, from the kept pairs or from the general set."""

    source: str
    reference: str
    general: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """A score (0 to 100) of `count` sentences before and after, and the 95% interval of the
    difference."""

    before: float
    after: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.after - self.before:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Scores on those of the `kept` pairs that were translated, and on the general set; None
    without terms or general set."""

    bleu: Score
    chrf: Score
    terms: Score | None
    general: Score | None
    kept: int

    @property
    def gained(self) -> float:
        """chrF that the kept pairs gain."""
        return self.chrf.after - self.chrf.before

    @property
    def lost(self) -> float:
        """chrF that the general set loses."""
        return 0.0 if self.general is None else self.general.before - self.general.after

    def reasons(self) -> list[str]:
        """Returns why the adapted model is not to be written, and what would be enough, as
        sentences."""
        better = (
            []
            if self.chrf.low > 0
            else [f"The kept pairs are not better beyond chance: {self.chrf} chrF."]
        )
        enough = [f"Enough would be {self._enough()}."] * len(better)
        return (
            better
            + enough
            + [f"The general set loses {self.lost:.1f} chrF."] * (self.lost > MOST_LOST)
        )

    def _enough(self) -> str:
        """Returns how many pairs would show that the gain is not chance: the interval shrinks with
        the square root of their number."""
        half, judged = self.gained - self.chrf.low, math.inf
        if self.gained > 0:
            judged = self.chrf.count * (half / self.gained) ** 2 + 1
        if judged > MOST_KEPT:
            return (
                f"a larger gain, as {LIKELY_PAIRS:,} pairs of such texts or more are likely to give"
            )
        rounded = math.ceil(judged / 10) * 10
        if rounded <= self.kept:
            return (
                f"more --minutes: {self.chrf.count} of {self.kept} kept pairs were judged, and "
                f"about {rounded} suffice"
            )
        return (
            f"about {KEPT_SHARE * rounded:,} such pairs for the same gain, if the --minutes "
            f"suffice to judge {rounded}"
        )

    def table(self) -> list[tuple[str, ...]]:
        """Returns a row of headings, and one for each score."""
        names = {
            "BLEU": self.bleu,
            "chrF": self.chrf,
            "terms %": self.terms,
            "general chrF": self.general,
        }
        scores = [(name, score) for name, score in names.items() if score is not None]
        rows = [
            (name, f"{x.before:.1f}", f"{x.after:.1f}", str(x), str(x.count)) for name, x in scores
        ]
        return [("SCORE", "BEFORE", "AFTER", "DIFFERENCE (95%)", "SENTENCES"), *rows]


def general_sentences(source: str, target: str) -> list[Sentence]:
    """Returns some 200 sentences of this package, always the same; none for languages without
    such."""
    file = _WRITTEN / f"written.en-{target if source == 'en' else source}.tsv"
    pairs = list(read_pairs(file)) if "en" in (source, target) and file.is_file() else []
    texts = [(pair.english, pair.other) for pair in pairs[:: 1 + len(pairs) // _GENERAL]]
    return [Sentence(*(text if source == "en" else text[::-1]), general=True) for text in texts]


def judge(
    sentences: Sequence[Sentence],
    before: Sequence[str],
    after: Sequence[str],
    direction: tuple[str, str],
    terms: Mapping[str, str],
) -> Judgement:
    """Compares two translations of the first sentences, as many as `after` has. `terms` are words
    with their translation; each counts in the kept sentences whose source has it."""
    rows: list[tuple[Sentence, str, str]] = list(zip(sentences, before, after, strict=False))
    kept, general = ([row for row in rows if row[0].general == wanted] for wanted in (False, True))

    def compare(metric: Any, rows: Sequence[Sequence[Any]]) -> Score:
        sentences, *sides = zip(*rows, strict=True)
        references = [[sentence.reference for sentence in sentences]]
        # sacrebleu has the interval of a score, but not that of a difference.
        first, second = (
            np.array(metric._extract_corpus_statistics(side, references), dtype=float)
            for side in sides
        )
        return _compared(
            first, second, lambda sums: float(metric._compute_score_from_stats(sums.tolist()).score)
        )

    first, second = (
        _exact_terms(
            [(row[0].source, text) for row, text in zip(kept, texts, strict=True)], direction, terms
        )
        for texts in ([row[1] for row in kept], [row[2] for row in kept])
    )
    return Judgement(
        compare(bleu_of(direction[1]), kept),
        compare(CHRF(), kept),
        _compared(first, second, lambda sums: 100 * float(sums[0] / max(1.0, sums[1])))
        if first[:, 1].any()
        else None,
        compare(CHRF(), general) if general else None,
        sum(not sentence.general for sentence in sentences),
    )


def _compared(before: Rows, after: Rows, score: Callable[[Rows], float]) -> Score:
    """Returns the scores of all rows, and the interval over resamples of the sentences (Koehn 2004,
    "Statistical significance tests for machine translation evaluation")."""
    size = len(before)
    # times of each sentence
    drawn = np.random.default_rng(1).multinomial(size, np.full(size, 1 / size), _RESAMPLES)
    resampled = zip(drawn @ before, drawn @ after, strict=True)
    low, high = np.percentile(
        [score(second) - score(first) for first, second in resampled], (2.5, 97.5)
    )
    return Score(score(before.sum(0)), score(after.sum(0)), float(low), float(high), size)


def _exact_terms(
    rows: Sequence[tuple[str, str]], direction: tuple[str, str], terms: Mapping[str, str]
) -> Rows:
    """Returns for each source and translation how many terms the translation and the source
    have."""
    counts = []
    for source, translation in rows:
        targets = [target for term, target in terms.items() if _has(source, term, direction[0])]
        counts.append(
            (sum(_has(translation, target, direction[1]) for target in targets), len(targets))
        )
    return np.array(counts, dtype=float)


def _has(text: str, term: str, language: str) -> bool:
    """Returns whether a text has a term as whole words, ignoring case."""
    text, term = text.casefold(), term.casefold()
    return term in text and (
        language.split("-")[0] in SPACELESS
        or re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None
    )
