"""Fits the confidence of one direction on translations with known chrF. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model.analysis.confidence import (
    GOOD_CHRF,
    LEAST_GAP,
    DirectionLimits,
    Quality,
    features,
    length_ratio,
)

Float64 = NDArray[np.float64]

LEAST_SENTENCES = 100
_STEPS, _RIDGE = 30, 1e-3
_BINS = 10
_SHORT_SHARE = 0.01
"""Share of the translations that are short."""
_GAP_SHARE = 0.005
"""Largest share of the good translations whose gap is an omission."""


@dataclass(frozen=True, slots=True)
class ScoredTranslation:
    """One sentence as input of the fit. `gap` is `model.analysis.attention_alignment.largest_gap`, or None if it is unknown."""

    token_scores: tuple[float, ...]
    source_tokens: int
    chrf: float
    flagged: bool = False
    gap: float | None = None


def fit_direction(translations: Sequence[ScoredTranslation]) -> DirectionLimits:
    """Returns the numbers of one direction, fitted on every second translation; the quality is that of the others.

    Raises ValueError for fewer than LEAST_SENTENCES translations, or if all of them are good or none is.
    """
    if len(translations) < LEAST_SENTENCES:
        raise ValueError(f"{len(translations)} sentences are too few to fit a confidence; it needs {LEAST_SENTENCES}.")
    fitted, held_out = translations[::2], translations[1::2]
    labels = np.array([item.chrf >= GOOD_CHRF for item in fitted], dtype=np.float64)
    if labels.min() == labels.max():
        raise ValueError("A confidence cannot be fitted: the sentences are all good or all bad.")
    inputs = np.array([features(item.token_scores, item.source_tokens) for item in fitted])
    coefficients: list[float] = _logistic(inputs, labels).tolist()
    flagged = [item.chrf >= GOOD_CHRF for item in translations if item.flagged]
    ratios = [length_ratio(len(item.token_scores), item.source_tokens) for item in translations]
    gaps = [item.gap for item in translations if item.gap is not None and item.chrf >= GOOD_CHRF]
    limits = DirectionLimits(
        coefficients=(round(coefficients[0], 4), round(coefficients[1], 4), round(coefficients[2], 4)),
        flagged=round((sum(flagged) + 1) / (len(flagged) + 10), 3),
        short=round(float(np.quantile(ratios, _SHORT_SHARE)), 3),
        gap=round(max([LEAST_GAP, *([float(np.quantile(gaps, 1 - _GAP_SHARE))] if gaps else [])]), 3),
        quality=Quality(0, 0.0, 0.0, 0.0),
    )
    return replace(limits, quality=quality(limits, held_out))


def quality(limits: DirectionLimits, translations: Sequence[ScoredTranslation]) -> Quality:
    """Returns how well the confidence fits these translations."""
    sure = np.array([limits.confidence(item.token_scores, item.source_tokens, item.flagged) for item in translations])
    chrf = np.array([item.chrf for item in translations])
    good = (chrf >= GOOD_CHRF).astype(np.float64)
    bins = np.array_split(np.argsort(sure, kind="stable"), _BINS)
    error = sum(abs(sure[rows].mean() - good[rows].mean()) * len(rows) for rows in bins if len(rows)) / len(
        translations
    )
    return Quality(
        sentences=len(translations),
        pearson=round(_correlation(sure, chrf), 3),
        spearman=round(_correlation(_ranks(sure), _ranks(chrf)), 3),
        calibration_error=round(float(error), 3),
    )


def _logistic(inputs: Float64, labels: Float64) -> Float64:
    """Returns intercept and coefficients of a logistic regression (Newton's method) of the inputs (N, F). Coefficients
    of the first input are not negative: a higher probability never lowers the confidence."""
    columns = np.column_stack([np.ones(len(inputs)), inputs])  # (N, 1 + F)
    weights = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        probabilities = 1.0 / (1.0 + np.exp(-np.clip(columns @ weights, -30, 30)))
        slopes = probabilities * (1 - probabilities)
        hessian = (columns * slopes[:, None]).T @ columns + _RIDGE * np.eye(len(weights))
        weights = weights + np.linalg.solve(hessian, columns.T @ (labels - probabilities) - _RIDGE * weights)
    weights[1] = max(weights[1], 0.0)
    return weights


def _ranks(values: Float64) -> Float64:
    """Returns the ranks of values; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: Float64 = (ends - (counts - 1) / 2.0)[inverse]
    return means


def _correlation(first: Float64, second: Float64) -> float:
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
