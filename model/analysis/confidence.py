"""The confidence of a translation and the limits of its checks, fitted for each direction of a
model folder.

The confidence is the probability that a translation has a chrF of at least `GOOD_CHRF`: a logistic
function of `features`. `confidence.json` names the weights it was fitted for; with other weights it
is not used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat, TypeAdapter

from model.weight_files import hash_of_files, weight_files

FILE = "confidence.json"
FORMAT = 3
GOOD_CHRF = 40.0
LOW = 0.66
"""Confidence below which a translation is doubtful: figures are in docs/checks.md."""
LEAST_GAP = 0.8
"""Smallest limit of `DirectionLimits.gap`."""
_SAMPLE_BYTES = 4_000_000
"""Bytes at each end of a weight file that its hash covers."""
Float64 = NDArray[np.float64]
LEAST_SENTENCES = 100
_STEPS, _RIDGE = 30, 1e-3
_BINS = 10
_FOLDS = 5
_SHORT_SHARE = 0.01
"""Share of the translations that are short."""
_GAP_SHARE = 0.005
"""Largest share of good translations whose gap counts as an omission."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a confidence fits sentences outside its fit: their number, correlations of
    confidence and chrF, expected calibration error over ten bins of equal size (Guo et al. 2017),
    and the area under the ROC curve for sentences with a chrF below `GOOD_CHRF`."""

    sentences: int
    pearson: float
    spearman: float
    calibration_error: float
    wrong: float


@dataclass(frozen=True, slots=True)
class DirectionLimits:
    """Fitted numbers of one direction. `coefficients` are the intercept and those of `features`;
    `flagged` is the highest probability of sentences with a flag. A target is short if the
    logarithm of its tokens per source token is below `short`; a gap in the attention above `gap` is
    an omission."""

    coefficients: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    flagged: float
    short: float
    gap: float
    quality: Quality

    def confidence(self, token_scores: Sequence[float], characters: int, flagged: bool) -> float:
        """Returns the probability that a translation is not wrong, from the `token_scores` of its
        best hypothesis and the number of characters of its text."""
        if not token_scores:
            return 0.0
        base, mean, length, count = self.coefficients
        values = features(token_scores, characters)
        score = base + mean * values[0] + length * values[1] + count * values[2]
        probability = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, score))))
        return min(probability, self.flagged) if flagged else probability


@dataclass(frozen=True, slots=True)
class Confidence:
    """The content of confidence.json. `weights` is the hash of the weight files; directions are
    written `en-de`."""

    weights: str
    directions: Mapping[str, DirectionLimits]

    def to_json(self) -> str:
        directions = {
            direction: asdict(limits) for direction, limits in sorted(self.directions.items())
        }
        content = {
            "format": FORMAT,
            "weights": self.weights,
            "good_chrf": GOOD_CHRF,
            "directions": directions,
        }
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def load(cls, folder: Path) -> Confidence | None:
        """Reads confidence.json of a model folder. Returns None without a file, or if it was fitted
        for other weights. Raises ValueError for an invalid file."""
        file = folder / FILE
        if not file.is_file():
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["format"] != FORMAT or content["weights"] != weights_hash(folder):
                return None
            return TypeAdapter(cls).validate_python(content)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is not a valid calibration: {error!r}") from None


def features(token_scores: Sequence[float], characters: int) -> tuple[float, float, float]:
    """Returns the mean log-probability of the target tokens, the logarithm of their mean length in
    characters (rare and invented words have many short pieces), and that of their number."""
    tokens = len(token_scores)
    return sum(token_scores) / tokens, math.log(max(1, characters) / tokens), math.log(tokens)


def length_ratio(target_tokens: int, source_tokens: int) -> float:
    """Returns the logarithm of target tokens per source token, both with the end of sentence."""
    return math.log(max(1, target_tokens) / max(1, source_tokens))


def weights_hash(folder: Path) -> str:
    """Returns a hash of names, sizes and ends of a folder's weight files."""
    return hash_of_files(weight_files(folder), _SAMPLE_BYTES)[:16]


@dataclass(frozen=True, slots=True)
class ScoredTranslation:
    """One sentence of the fit. `characters` is the length of the translation, `gap` its
    `largest_gap`, None if unknown."""

    token_scores: tuple[float, ...]
    source_tokens: int
    characters: int
    chrf: float
    flagged: bool = False
    gap: float | None = None


def fit_direction(translations: Sequence[ScoredTranslation]) -> DirectionLimits:
    """Returns the numbers of one direction. Their quality is measured by cross-validation over five
    folds.

    Raises ValueError for fewer than LEAST_SENTENCES translations, or if all are good or none is.
    """
    if len(translations) < LEAST_SENTENCES:
        raise ValueError(
            f"{len(translations)} sentences are too few to fit a confidence; it needs "
            f"{LEAST_SENTENCES}."
        )
    if len({item.chrf >= GOOD_CHRF for item in translations}) == 1:
        raise ValueError("A confidence cannot be fitted: the sentences are all good or all bad.")
    sure = np.empty(len(translations))
    for fold in range(_FOLDS):
        limits = _fitted(
            [item for number, item in enumerate(translations) if number % _FOLDS != fold]
        )
        sure[fold::_FOLDS] = [_confidence(limits, item) for item in translations[fold::_FOLDS]]
    return replace(
        _fitted(translations), quality=quality(sure, np.array([item.chrf for item in translations]))
    )


def _fitted(translations: Sequence[ScoredTranslation]) -> DirectionLimits:
    labels = np.array([item.chrf >= GOOD_CHRF for item in translations], dtype=np.float64)
    inputs = np.array([features(item.token_scores, item.characters) for item in translations])
    base, mean, length, count = _logistic(inputs, labels).round(4).tolist()
    flagged = [item.chrf >= GOOD_CHRF for item in translations if item.flagged]
    ratios = [length_ratio(len(item.token_scores), item.source_tokens) for item in translations]
    gaps = [item.gap for item in translations if item.gap is not None and item.chrf >= GOOD_CHRF]
    return DirectionLimits(
        coefficients=(base, mean, length, count),
        flagged=round((sum(flagged) + 1) / (len(flagged) + 10), 3),
        short=round(float(np.quantile(ratios, _SHORT_SHARE)), 3),
        gap=round(
            max([LEAST_GAP, *([float(np.quantile(gaps, 1 - _GAP_SHARE))] if gaps else [])]), 3
        ),
        quality=Quality(0, 0.0, 0.0, 0.0, 0.0),
    )


def _confidence(limits: DirectionLimits, item: ScoredTranslation) -> float:
    return limits.confidence(item.token_scores, item.characters, item.flagged)


def quality(sure: Float64, chrf: Float64) -> Quality:
    """Returns how well confidences fit the chrF of their translations."""
    good = (chrf >= GOOD_CHRF).astype(np.float64)
    bins = np.array_split(np.argsort(sure, kind="stable"), _BINS)
    error = sum(
        abs(sure[rows].mean() - good[rows].mean()) * len(rows) for rows in bins if len(rows)
    ) / len(sure)
    return Quality(
        sentences=len(sure),
        pearson=round(_correlation(sure, chrf), 3),
        spearman=round(_correlation(_ranks(sure), _ranks(chrf)), 3),
        calibration_error=round(float(error), 3),
        wrong=round(_area(-sure, chrf < GOOD_CHRF), 3),
    )


def _area(values: Float64, good: NDArray[np.bool_]) -> float:
    """Returns the area under the ROC curve: the probability that a value of a `good` item is larger
    than that of another."""
    count = int(good.sum())
    if count in (0, len(good)):
        return 0.5
    return float((_ranks(values)[good].mean() - (count - 1) / 2) / (len(good) - count))


def _logistic(inputs: Float64, labels: Float64) -> Float64:
    """Returns intercept and coefficients of a logistic regression (Newton's method) of the inputs
    (N, F). The first coefficient is not negative: a higher probability never lowers the
    confidence."""
    columns = np.column_stack([np.ones(len(inputs)), inputs])  # (N, 1 + F)
    weights = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        probabilities = 1.0 / (1.0 + np.exp(-np.clip(columns @ weights, -30, 30)))
        slopes = probabilities * (1 - probabilities)
        hessian = (columns * slopes[:, None]).T @ columns + _RIDGE * np.eye(len(weights))
        weights = weights + np.linalg.solve(
            hessian, columns.T @ (labels - probabilities) - _RIDGE * weights
        )
    weights[1] = max(weights[1], 0.0)
    return weights


def _ranks(values: Float64) -> Float64:
    """Equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: Float64 = (ends - (counts - 1) / 2.0)[inverse]
    return means


def _correlation(first: Float64, second: Float64) -> float:
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
