"""The confidence of a translation: fit, file and limits."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

from model.analysis.confidence import (
    FILE,
    LEAST_SENTENCES,
    Confidence,
    DirectionLimits,
    Quality,
    ScoredTranslation,
    fit_direction,
    length_ratio,
    weights_hash,
)
from model.analysis.position_schemes import alibi, restricted, rotary, schemes, softmax
from model.config import ModelConfig

LIMITS = DirectionLimits((1.0, 2.0, 0.5, -0.5), 0.1, -0.5, 0.8, Quality(50, 0.7, 0.6, 0.05, 0.8))


def translations(count: int = 2_000, seed: int = 0) -> list[ScoredTranslation]:
    """Translations whose chrF grows with the mean score and with the length of the tokens, with
    noise."""
    numbers = random.Random(seed)
    found = []
    for _ in range(count):
        mean, size = -3 * numbers.random() ** 2, numbers.randint(4, 40)
        length = numbers.uniform(2, 6)
        chrf = min(100.0, max(0.0, 35 + 25 * mean + 10 * length + numbers.gauss(0, 12)))
        scores = tuple(mean + numbers.gauss(0, 0.05) for _ in range(size))
        found.append(
            ScoredTranslation(scores, size, round(length * size), chrf, gap=numbers.random())
        )
    return found


def test_a_fitted_confidence_is_calibrated_on_other_translations():
    limits = fit_direction(translations())
    assert limits.quality.sentences == 2_000
    assert limits.quality.spearman > 0.7 and limits.quality.pearson > 0.7
    assert limits.quality.calibration_error < 0.04 and limits.quality.wrong > 0.8


def test_confidence_rises_with_the_probability_and_lies_between_0_and_1():
    limits = fit_direction(translations())
    rising = [limits.confidence([score] * 9, 36, False) for score in np.linspace(-9, 0, 40)]
    assert rising == sorted(rising) and 0 <= rising[0] < 0.2 and 0.8 < rising[-1] <= 1
    assert limits.confidence([-0.5] * 9, 18, False) < limits.confidence([-0.5] * 9, 54, False)


def test_confidence_does_not_fall_with_the_probability_for_any_data():
    reverse = [
        ScoredTranslation(item.token_scores, item.source_tokens, 9, 100 - item.chrf)
        for item in translations()
    ]
    assert fit_direction(reverse).coefficients[1] == 0


def test_a_flag_lowers_the_confidence():
    assert LIMITS.confidence([-0.1] * 5, 20, True) == 0.1 < LIMITS.confidence([-0.1] * 5, 20, False)
    assert LIMITS.confidence([-9.0] * 5, 20, True) < 0.1
    assert LIMITS.confidence([], 0, False) == 0


def test_the_limits_follow_the_translations():
    limits = fit_direction(
        [*translations(), *(ScoredTranslation((-0.1,), 40, 4, 90.0, gap=3.0) for _ in range(100))]
    )
    assert limits.gap == 3.0
    assert limits.short == pytest.approx(length_ratio(1, 40), abs=1e-3)
    assert fit_direction(translations()).gap == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (translations(LEAST_SENTENCES - 1), "too few"),
        ([ScoredTranslation((-0.1,), 5, 4, 90.0)] * LEAST_SENTENCES, "all good"),
    ],
)
def test_a_fit_needs_enough_different_translations(found, message):
    with pytest.raises(ValueError, match=message):
        fit_direction(found)


def test_the_file_is_read_back_until_the_weights_change(tmp_path):
    assert Confidence.load(tmp_path) is None
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    written = Confidence(weights_hash(tmp_path), {"en-de": LIMITS})
    (tmp_path / FILE).write_text(written.to_json())
    (tmp_path / "shortlist.safetensors").write_bytes(b"no weights")
    assert Confidence.load(tmp_path) == written
    (tmp_path / "model.safetensors").write_bytes(b"changed")
    assert Confidence.load(tmp_path) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: [],
        lambda content: content | {"directions": 5},
        lambda content: content | {"directions": {"en-de": {}}},
        lambda content: content["directions"]["en-de"].update(coefficients=[1, 2]) or content,
        lambda content: (
            content["directions"]["en-de"].update(coefficients=[1, float("nan"), 2]) or content
        ),
        lambda content: content["directions"]["en-de"].update(quality=None) or content,
    ],
)
def test_a_damaged_file_is_named(tmp_path, damage):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    content = json.loads(Confidence(weights_hash(tmp_path), {"en-de": LIMITS}).to_json())
    (tmp_path / FILE).write_text(json.dumps(damage(content)))
    with pytest.raises(ValueError, match=FILE):
        Confidence.load(tmp_path)


@pytest.mark.parametrize("width", [2, 16, 64])
def test_rotary_products_depend_on_the_distance_only(width: int) -> None:
    query, key = np.random.default_rng(width).normal(size=(2, width)).astype(np.float32)
    queries, keys = rotary(np.tile(query, (20, 1))), rotary(np.tile(key, (20, 1)))
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), np.linalg.norm(query), rtol=1e-5)
    products = queries @ keys.T
    for distance in range(-19, 20):
        np.testing.assert_allclose(
            np.diagonal(products, distance), np.diagonal(products, distance)[0], atol=1e-4
        )
    x, y, angle = query[-2], query[-1], 7 / 10000 ** ((width - 2) / width)
    turned = [x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)]
    np.testing.assert_allclose(queries[7, -2:], turned, atol=1e-6)


@pytest.mark.parametrize("heads", [1, 6, 8])
def test_alibi_takes_the_slope_times_the_distance(heads: int) -> None:
    biases = alibi(heads, 9)
    for head in range(heads):
        expected = [
            [-(2 ** (-8 * (head + 1) / heads)) * abs(i - j) for j in range(9)] for i in range(9)
        ]
        np.testing.assert_allclose(biases[head], expected, rtol=1e-6)
    assert (np.diff(softmax(biases[:, 0]).max(axis=1)) <= 0).all()  # the first head looks nearest


@pytest.mark.parametrize(("n", "r"), [(12, 1), (12, 3), (12, 4), (12, 40)])
def test_a_restricted_neighbourhood_has_r_positions_and_long_paths(n: int, r: int) -> None:
    seen = np.isfinite(restricted(n, r))
    assert all(seen[i, j] == (-(r // 2) <= j - i < r - r // 2) for i in range(n) for j in range(n))
    assert r > n or (seen.sum(axis=1).max() == r and seen.diagonal().all())
    if r > 2:
        layers = math.ceil((n - 1) / ((r - 1) // 2))
        reached = [np.linalg.matrix_power(seen.astype(float), count) > 0 for count in (layers, 1)]
        assert reached[0].all() and (reached[1].all() == (r > n))


def test_all_schemes_have_numbers_for_each_position() -> None:
    found = schemes(ModelConfig(vocab_size=10, d_model=24, heads=2), 7, 3)
    assert list(found) == ["sinusoidal", "learned", "rope", "alibi", "restricted"]
    for scheme in found.values():
        assert scheme.cells.shape == (7, len(scheme.columns)) and scheme.curves.shape[1] == 7
        assert np.isfinite(scheme.cells).all() and len(set(scheme.columns)) == len(scheme.columns)
    np.testing.assert_allclose(found["restricted"].cells.sum(axis=1), 1, rtol=1e-6)
